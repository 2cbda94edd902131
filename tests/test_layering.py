"""The one-way street: each room imports only what the house rules let it."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/fluoroscope"

FOUNDATION = {
    "atomic_write",
    "digest",
    "errors",
    "findings",
    "process_tuning",
    "progress_file",
    "registry",
    "rng",
    "runs",
    "strict_json",
    "types",
}
CORE = FOUNDATION | {"data", "models", "scores", "threat_models", "defences", "federation", "attacks"}
ALLOWED = {
    "atomic_write": set(),
    "digest": {"types"},
    "errors": set(),
    "findings": {"errors", "strict_json"},
    "process_tuning": set(),
    "progress_file": {"atomic_write", "errors"},
    "registry": {"errors"},
    "rng": set(),
    "strict_json": set(),
    "types": {"errors"},
    # It starts in a fraction of a second, as it has no torch.
    "decoders": {"errors", "strict_json"},
    "data": FOUNDATION | {"decoders"},
    "models": FOUNDATION | {"decoders"},
    "scores": FOUNDATION,
    "threat_models": FOUNDATION,
    # DP-SGD trains the network as the client runs it; the guard takes wrappers' names off as every reader does.
    "defences": FOUNDATION | {"models.modes", "models.names"},
    # Clients evaluate with the same function that scores use: docs/decisions/0002. Defences stand at its edges: 0009.
    "federation": FOUNDATION | {"data", "models", "scores.utility", "defences"},
    # An attacker simulates the client with the client's own code, on the network that it knows: docs/decisions/0007.
    # And it compares its own guesses with one another as a score compares them with the truth: 0010.
    "attacks": FOUNDATION
    | {
        "models",
        "threat_models",
        "defences",
        "federation.local_training",
        "federation.optimisers",
        "federation.client_round",
        "scores.similarity",
    },
    "scenarios": CORE,
    # A cell is known by the files that it reads.
    "cells": FOUNDATION | {"data.recognition"},
    "runs": {"atomic_write", "errors", "progress_file", "strict_json"},
    # Acceptances and a gate's policy are TOML tables, read as a plan's are.
    "report": FOUNDATION | {"federation.sections"},
    "calibration": CORE | {"report.figures", "scenarios", "cells"},
    # Recorded updates are read with what records them, and attacked as a site's meter attacks its own.
    "audit": CORE
    | {"scenarios", "cells", "site", "integrations.recorded", "integrations.pairs", "integrations.checkpoints"},
    "studies": CORE | {"report", "scenarios", "cells"},
    "site": CORE | {"scenarios"},
    "integrations": CORE | {"scenarios", "site"},
    # The live view reads files, and imports nothing that trains or attacks: it starts in a second.
    "web": FOUNDATION | {"report", "site.entry", "site.ledger"},
    "cli": CORE | {"audit", "calibration", "cells", "integrations", "report", "scenarios", "site", "studies", "web"},
}
"""A row for every room: what it may import beside itself."""


def imports(path: Path) -> set[str]:
    """The modules of the house that a file imports, from anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fluoroscope":
            inside = node.module.removeprefix("fluoroscope").removeprefix(".")
            found |= {inside} if inside else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("fluoroscope.") for a in node.names if a.name.startswith("fluoroscope.")}
    return found


def breaches(room: str, path: Path) -> list[str]:
    allowed = ALLOWED[room] | {room}
    return [
        f"{path.relative_to(SOURCE)} imports {name}"
        for name in sorted(imports(path))
        if not any(name == a or name.startswith(f"{a}.") for a in allowed)
    ]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room == "__init__":
        assert not imports(path) - FOUNDATION
    else:
        assert room in ALLOWED, f"{room} is not a room of the house: add it here with what it may import"
        assert not breaches(room, path)


def test_the_rule_can_fail(tmp_path):
    """A file of `data` that reaches for the attacks would be caught."""
    trespasser = SOURCE / "data" / "sources.py"
    assert not breaches("data", trespasser)
    assert breaches("rng", trespasser)


def test_no_gpu_only_code():
    """The device is a setting."""
    assert not [path for path in SOURCE.rglob("*.py") if ".cuda()" in path.read_text()]
