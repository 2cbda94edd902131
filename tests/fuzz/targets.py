"""Every reader: a folder of good files, which of them are mutated, and the command or function that reads them."""

from dataclasses import dataclass

from fluoroscope.calibration.kept import Tried
from fluoroscope.cells.store import CellStore
from tests.fuzz.readers import (
    Read,
    arguments,
    attacks_answer,
    checkpoint,
    command,
    decoders_answer,
    door,
    gathered,
    inspect,
    learned,
    pages,
    progress,
    several,
)


@dataclass(frozen=True)
class Target:
    """One way in."""

    name: str
    folder: str
    """Of the good files, below the materials."""
    files: tuple[str, ...]
    """Patterns of those that are mutated, below that folder."""
    read: Read
    """What is done with the folder, one file of which is another."""
    codes: frozenset[int] = frozenset()
    """Exit codes that mean something beside 0 (still good) and 2 (a sentence)."""
    works: str | None = None
    """What is there once the input was accepted and the command went to work, which may take long."""
    share: float = 4
    """Of all inputs."""
    at_once: int = 1
    """Files that are mutated together: a process that decodes images takes a while to start."""
    slow: bool = False
    """Left to `make fuzz`."""


METER = (
    "meter", "--before", "HERE/model.safetensors", "--after", "HERE/model.pt", "--model", "lenet5", "--images",
    "phantom/chest", "--size", "28", "--lr", "0.1", "--seconds", "1",
)  # fmt: skip
UPDATES = (
    "audit", "--updates", "HERE/recorded", "--public", "HERE/public.npz", "--lr", "0.1", "--holds", "north=8",
    "--out", "HERE/out", "--dry-run", "--json",
)  # fmt: skip
REFUSED, FAILED = frozenset({3}), frozenset({4})
STATES = ("*.safetensors", "*.pt", "*.pth", "*.npz")
STORE = ("run.json", "checksums.json", "plan.private.json", "rounds/*/*.json", "rounds/*/*.safetensors", "result.json")
FORMATS = tuple(f"--format={name}" for name in ("sarif", "junit", "md", "json", "card", "dpia"))

TARGETS = (
    Target(
        "plan, shown", "plan", ("plan.toml",), command("data", "show", "HERE/plan.toml", "--out", "HERE/x.png"), share=8
    ),
    Target(
        "plan, audited",
        "plan",
        ("plan.toml",),
        command("audit", "HERE/plan.toml", "--out", "HERE/out", "--dry-run"),
        share=6,
    ),
    Target(
        "plan, federated",
        "plan",
        ("plan.toml",),
        command("federate", "HERE/plan.toml", "--out", "HERE/out"),
        works="out/progress.json",
        slow=True,
        share=3,
    ),
    Target("plan, canaries", "plan", ("plan.toml",), command("canaries", "HERE/plan.toml"), FAILED, slow=True, share=1),
    Target(
        "findings, exported",
        "audit",
        ("audit/findings.json", "audit/timing.json"),
        command("report", "HERE/audit", *FORMATS),
        share=8,
    ),
    Target(
        "findings, on a page",
        "audit",
        ("audit/findings.json", "audit/timing.json"),
        command("report", "HERE/audit"),
        slow=True,
        share=0.5,
    ),
    Target(
        "findings, in numbers",
        "audit",
        ("audit/findings.json",),
        command("report", "HERE/audit", "--numbers-only", "--format", "html", "--format", "dpia"),
        slow=True,
        share=0.25,
    ),
    Target(
        "findings, gated",
        "audit",
        ("audit/findings.json",),
        command(
            "gate", "HERE/audit", "--max-leak", "0.1", "--accepted", "HERE/accepted.toml", "--policy", "HERE/gate.toml"
        ),
        FAILED,
        share=4,
    ),
    Target(
        "findings, frozen",
        "audit",
        ("audit/findings.json",),
        command("gate", "HERE/audit", "--write-policy", "HERE/new.toml"),
        share=2,
    ),
    Target(
        "findings, compared",
        "audit",
        ("audit/findings.json", "other/findings.json"),
        command("compare", "HERE/audit", "HERE/other"),
        share=4,
    ),
    Target(
        "gallery",
        "audit",
        ("audit/gallery/*.png",),
        command("report", "HERE/audit", "--show-images"),
        slow=True,
        share=0.75,
    ),
    Target(
        "accepted",
        "audit",
        ("accepted.toml",),
        command("gate", "HERE/audit", "--accepted", "HERE/accepted.toml"),
        FAILED,
    ),
    Target(
        "limits of a gate", "audit", ("gate.toml",), command("gate", "HERE/audit", "--policy", "HERE/gate.toml"), FAILED
    ),
    Target(
        "run of an audit, verified", "audit", ("audit/run-manifest.json",), command("records", "HERE/audit", "--verify")
    ),
    Target(
        "run of an audit, cleaned",
        "audit",
        ("audit/run-manifest.json", "audit/findings.json", "audit/progress.json"),
        command("clean", "HERE/audit", "--yes"),
        share=2,
    ),
    Target(
        "live view",
        "audit",
        ("*/findings.json", "*/progress.json", "calibration/*.json", "studies/*/*/*.json", "*/timing.json"),
        pages,
        slow=True,
        share=4,
    ),
    Target("live view of a federation", "run", STORE, pages, slow=True, share=2),
    Target("progress", "audit", ("audit/progress.json",), progress),
    Target("records, shown", "run", STORE, lambda here: command("records", f"{here}/federation")(here)),
    Target(
        "records, verified", "run", (*STORE, "run-manifest.json"), command("records", "HERE/federation", "--verify")
    ),
    Target(
        "records, attacked",
        "run",
        STORE,
        gathered,
        share=3,
    ),
    Target(
        "records, gone on with",
        "run",
        STORE,
        command("federate", "HERE/plan.toml", "--out", "HERE/federation"),
        slow=True,
        share=2,
    ),
    Target(
        "signature, checked",
        "run",
        ("secret", "federation/run-manifest.json"),
        several(
            command("records", "HERE/federation", "--sign", "HERE/secret"),
            command("records", "HERE/federation", "--verify", "--key", "HERE/secret"),
        ),
        share=2,
    ),
    Target("policy of a site", "site", ("appetite.toml",), command("policy", "check", "HERE/appetite.toml"), share=8),
    Target("ledger, shown", "site", ("ledger.jsonl",), command("ledger", "show", "HERE/ledger.jsonl")),
    Target("ledger, verified", "site", ("ledger.jsonl",), command("ledger", "verify", "HERE/ledger.jsonl"), FAILED),
    Target(
        "a site's own files", "site", ("ledger.jsonl.guard.json", "ledger.jsonl.secret", "ledger.jsonl"), door, share=2
    ),
    Target(
        "NVFlare's privacy.json, checked",
        "workspace",
        ("local/privacy.json",),
        command("nvflare", "install", "HERE", "--check"),
        FAILED,
    ),
    Target(
        "NVFlare's privacy.json, imported",
        "workspace",
        ("local/privacy.json",),
        command("defences", "import", "HERE/local/privacy.json"),
    ),
    Target("state, inspected", "states", STATES, lambda here: inspect(here), REFUSED, slow=True, share=12),
    Target(
        "state, agreed",
        "states",
        ("model.safetensors",),
        command("inspect", "HERE/model.npz", "--agreed", "HERE/model.safetensors"),
        REFUSED,
        share=2,
    ),
    Target("state, metered", "states", ("model.pt", "model.safetensors"), command(*METER), REFUSED, slow=True, share=1),
    Target(
        "bundle's configuration",
        "states",
        ("train.json", "train.yaml"),
        lambda here: inspect(here, "train.*"),
        REFUSED,
        share=2,
    ),
    Target("recorded updates", "updates", ("recorded/rounds/*/*/*", "recorded/models/*"), command(*UPDATES), share=4),
    Target(
        "pictures",
        "pictures",
        ("*/*.png",),
        command("data", "show", "folder:HERE", "--skip-bad", "--out", "HERE.png"),
        share=4,
        at_once=3,
    ),
    Target(
        "pictures in colour",
        "colour",
        ("*/*.jpg",),
        command("data", "show", "folder:HERE", "--skip-bad", "--out", "HERE.png"),
        share=4,
        at_once=3,
    ),
    Target(
        "DICOM",
        "dicom",
        ("*/*.dcm",),
        command("data", "show", "dicom:HERE", "--size", "28", "--channels", "1", "--skip-bad", "--out", "HERE.png"),
        share=6,
        at_once=4,
    ),
    Target(
        "NIfTI",
        "volumes",
        ("*/*.nii.gz",),
        command("data", "show", "nifti:HERE", "--skip-bad", "--out", "HERE.png"),
        share=4,
        at_once=3,
    ),
    Target(
        "table of images",
        "tabled",
        ("images.csv",),
        command("data", "show", "folder:HERE", "--out", "HERE.png"),
        share=3,
    ),
    Target("pictures, planned", "pictures", ("*/*.png",), command("init", "HERE", "HERE.toml", "--force"), share=1),
    Target(
        "archive of images",
        "npz",
        ("images.npz",),
        command("data", "show", "HERE/images.npz", "--out", "HERE/x.png"),
        share=6,
    ),
    Target("words of a command", "words", ("*.json",), arguments, REFUSED | FAILED, share=6),
    Target("a decoder's answer", "answers", ("decoder.bin",), decoders_answer, share=2),
    Target("an attack's answer", "answers", ("attack.bin",), attacks_answer, frozenset({1}), share=2),
    Target("cells", "kept", ("cells/*",), lambda here: CellStore(here / "cells").load("a" * 24)),
    Target("checkpoint of an attack", "kept", ("checkpoint/*",), checkpoint),
    Target("settings that were tried", "kept", ("tried/*",), lambda here: Tried(here / "tried").load("b" * 24)),
    Target("what a meter learned", "kept", ("rehearsed.json",), learned),
)
