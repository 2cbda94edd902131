"""Writes constraints.txt and requirements.lock from the environment as it is: `make lock`. See docs/decisions/0013."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BY_CONFIGURATION = {"torch"}
"""One version, several files: which one comes depends on the machine, so only the version is locked."""
NOT_LOCKED = {"pip", "fluoroscope"}


def pip(*arguments: str) -> str:
    """What pip prints."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def installed() -> dict[str, str]:
    """Versions by name, without a local part such as torch's +cpu."""
    packages = json.loads(pip("list", "--format", "json"))
    return {each["name"]: each["version"].partition("+")[0] for each in packages if each["name"] not in NOT_LOCKED}


def hashes(versions: dict[str, str]) -> dict[str, str]:
    """Of the file that pip takes for each, as pip itself reports it; nothing is installed."""
    wanted = [f"{name}=={version}" for name, version in versions.items()]
    options = ["--dry-run", "--ignore-installed", "--no-deps", "--no-build-isolation", "--quiet", "--report", "-"]
    report = json.loads(pip("install", *options, *wanted))
    found = {
        canonical(each["metadata"]["name"]): each["download_info"]["archive_info"]["hashes"]["sha256"]
        for each in report["install"]
    }
    return {name: found[canonical(name)] for name in versions}


def canonical(name: str) -> str:
    """Names as pip compares them."""
    return name.lower().replace("_", "-").replace(".", "-")


def main() -> None:
    """Both files, or neither: pip fails before anything is written."""
    versions = dict(sorted(installed().items(), key=lambda each: canonical(each[0])))
    found = hashes({name: version for name, version in versions.items() if name not in BY_CONFIGURATION})
    constraints = ["# The whole environment as it was tested, torch too. `make lock` writes it."]
    constraints += [f"{name}=={version}" for name, version in versions.items()]
    lock = ["# The same with hashes, for CPython 3.11 on Linux x86-64, without torch: docs/decisions/0013."]
    lock += [f"{name}=={versions[name]} --hash=sha256:{digest}" for name, digest in found.items()]
    (ROOT / "constraints.txt").write_text("\n".join(constraints) + "\n", encoding="utf-8")
    (ROOT / "requirements.lock").write_text("\n".join(lock) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
