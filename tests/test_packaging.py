"""What is installed: the lock, the versions and pyproject.toml agree, and the wheel holds what a run reads."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/fluoroscope"
LOCKED = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.]+)(?P<hashes>( --hash=sha256:[0-9a-f]{64})+)")


def lines(name: str) -> list[str]:
    return [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]


def constraints() -> dict[str, str]:
    pairs = (line.split("==") for line in lines("constraints.txt"))
    return {canonicalize_name(name): version for name, version in pairs}


def test_every_line_of_the_lock_has_a_version_and_a_hash_and_agrees_with_the_constraints():
    locked = [LOCKED.fullmatch(line) for line in lines("requirements.lock")]
    versions = {canonicalize_name(each["name"]): each["version"] for each in locked}
    assert constraints() == {**versions, "torch": "2.13.0"}
    assert "torch" not in versions, "its file depends on the machine: docs/decisions/0013"


def test_the_constraints_are_within_the_ranges_that_the_package_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(each for some in project["optional-dependencies"].values() for each in some)]
    tried = constraints()
    for requirement in map(Requirement, wanted):
        assert tried[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_every_extra_has_code_that_imports_it():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    source = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    for requirement in map(Requirement, [each for extra in extras.keys() - {"dev"} for each in extras[extra]]):
        assert f"import {requirement.name}" in source or f"from {requirement.name}" in source


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(tmp_path):
    tree = tmp_path / "tree"  # a copy: building leaves a folder in the tree that the next wheel would take up
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    command += ["--disable-pip-version-check", "--wheel-dir", str(tmp_path), str(tree)]
    subprocess.run(command, check=True, timeout=240)
    (wheel,) = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = {str(path.relative_to(SOURCE.parent)) for path in SOURCE.rglob("*") if path.is_file()}
    assert held == {name for name in files if "__pycache__" not in name}
    assert {Path(name).suffix for name in held} >= {".py", ".pyi", ".typed", ".toml", ".html", ".css", ".js"}
