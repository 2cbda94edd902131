"""Writes the packages of the environment as a CycloneDX 1.5 document: `make sbom`.

The same environment gives the same bytes. Torch has no hash in it, as in the lock: docs/decisions/0013.
"""

import json
import sys
import uuid
from pathlib import Path
from typing import Any

from packages import Environment, Package

NAMESPACE = uuid.UUID("6f2b2f7e-8a33-5d0e-9a55-1f9c1d6f3b10")
"""Under it a document's serial number is derived from its content."""
NO_HASH = "no: requirements.lock has no file of this version"


def document(environment: Environment) -> dict[str, Any]:
    """The bill of materials: this package, all others with licences and hashes, and who needs whom."""
    project, packages = environment.project, environment.packages
    own = f"pkg:pypi/{project.name}@{project.version}"
    refs = {name: purl(name, each) for name, each in packages.items()}
    needs = {refs[name]: [refs[each] for each in environment.needed(packages[name].requires)] for name in packages}
    needs = {own: [refs[each] for each in environment.needed(project.requirements)], **needs}
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "tools/sbom.py", "version": project.version}]},
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": project.name,
                "version": project.version,
                "purl": own,
                "licenses": [{"expression": project.licence}],
            },
        },
        "components": [component(refs[name], each, name in environment.at_run_time) for name, each in packages.items()],
        "dependencies": [{"ref": ref, "dependsOn": others} for ref, others in needs.items()],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(content, sort_keys=True))
    return {**content, "serialNumber": serial.urn}


def purl(name: str, package: Package) -> str:
    """Its address as other tools know it."""
    return f"pkg:pypi/{name}@{package.version.replace('+', '%2B')}"


def component(ref: str, package: Package, at_run_time: bool) -> dict[str, Any]:
    """One package."""
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": ref,
        "name": package.name,
        "version": package.version,
        "purl": ref,
        "scope": "required" if at_run_time else "excluded",
    }
    if package.hashes:
        made["hashes"] = [{"alg": "SHA-256", "content": each} for each in package.hashes]
    else:
        made["properties"] = [{"name": "fluoroscope:locked", "value": NO_HASH}]
    if package.expression:
        made["licenses"] = [{"expression": package.expression}]
    elif package.named:
        made["licenses"] = [{"license": {"name": name}} for name in package.named]
    return made


def main(path: Path) -> None:
    """The file, and a line about it."""
    made = document(Environment.read())
    path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    hashed = sum("hashes" in each for each in made["components"])
    sys.stdout.write(f"{path}: {len(made['components'])} packages, {hashed} with the hash of their file.\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "sbom.cdx.json"))
