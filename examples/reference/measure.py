"""Measure the federations that a page compares its own with, and write them down.

    python examples/reference/measure.py --work runs/reference --out src/fluoroscope/report/reference.json

Ten federations of phantoms: five plans, each without a defence and with one. Finished audits are not run again.
"""

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

from fluoroscope import process_tuning
from fluoroscope.audit import audit
from fluoroscope.cells import Local
from fluoroscope.report.grades import gains

Parts = list[dict[str, Any]]
NOISE: Parts = [{"name": "percentile-gaussian", "noise_scale": 1.0}]
STRONG_NOISE: Parts = [{"name": "percentile-gaussian", "noise_scale": 6.0}]
LOCAL_DP: Parts = [
    {"name": "fed-bn", "parameters": True},
    {"name": "clip-and-noise", "clip_norm": 1.0, "noise_multiplier": 0.05},
]
AT_HOME: Parts = [{"name": "fed-bn", "parameters": True}]
VARIED: dict[str, tuple[dict[str, Any], Parts]] = {
    "a hospital with one patient": ({"train": [1, 0]}, NOISE),
    "a hospital with four patients": ({"train": [2, 2]}, STRONG_NOISE),
    "a hospital with eight patients": ({"train": [4, 4]}, LOCAL_DP),
    "a hospital with 32 patients": ({"train": [16, 16]}, AT_HOME),
    "one patient, pictures of the eye": (
        {"others": [[12] * 5, [12] * 5, [2, 2, 2, 20, 30]], "train": [1, 0, 0, 0, 0], "source": "phantom/fundus"},
        STRONG_NOISE,
    ),
}
"""What is changed in plan.toml, and the defences that are tried together."""


def main() -> None:
    """Audit each, then write what every kind of attack gained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of the audits")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    asked = parser.parse_args()
    process_tuning.apply()
    found = []
    for number, (name, (changed, defence)) in enumerate(VARIED.items(), 1):
        found += _measured(name, changed, defence, asked.work / f"federation-{number}")
        print(f"{number} of {len(VARIED)}: {name}", flush=True)
    command = "python examples/reference/measure.py"
    asked.out.write_text(json.dumps({"command": command, "federations": found}, indent=1) + "\n", encoding="utf-8")


def _measured(name: str, changed: dict[str, Any], defence: Parts, folder: Path) -> list[dict[str, Any]]:
    plan = tomllib.loads(Path(__file__).with_name("plan.toml").read_text(encoding="utf-8"))
    plan["partition"]["train"] = [*changed.get("others", plan["partition"]["train"][:-1]), changed["train"]]
    plan["data"]["source"] = changed.get("source", plan["data"]["source"])
    plan["audit"]["compare"] = [{"label": " + ".join(part["name"] for part in defence), "defence": defence}]
    found = audit(plan, folder, Local(workers=1)).findings
    return [
        {
            "name": name,
            "defence": each.label,
            "gains": {kind: round(gain, 4) for kind, gain in gains(found, each.label).items()},
        }
        for each in found.defences
    ]


if __name__ == "__main__":
    main()
