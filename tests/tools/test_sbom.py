"""The bill of materials and the list of licences, against the environment and the lock that they are made from."""

import re
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from jsonschema import Draft7Validator
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
STRICT = {"additionalProperties": False, "type": "object"}
LICENCES = {
    "type": "array",
    "minItems": 1,
    "items": {
        "oneOf": [
            {
                **STRICT,
                "required": ["license"],
                "properties": {
                    "license": {
                        **STRICT,
                        "required": ["name"],
                        "properties": {"name": {"type": "string", "minLength": 1}},
                    }
                },
            },
            {**STRICT, "required": ["expression"], "properties": {"expression": {"type": "string"}}},
        ]
    },
}
COMPONENT = {
    **STRICT,
    "required": ["type", "name"],
    "properties": {
        "type": {"enum": ["application", "library"]},
        "bom-ref": {"type": "string", "minLength": 1},
        "name": {"type": "string", "minLength": 1},
        "version": {"type": "string"},
        "purl": {"type": "string", "pattern": r"^pkg:pypi/[a-z0-9-]+@[^+]+$"},
        "scope": {"enum": ["required", "optional", "excluded"]},
        "licenses": LICENCES,
        "hashes": {
            "type": "array",
            "items": {
                **STRICT,
                "required": ["alg", "content"],
                "properties": {"alg": {"const": "SHA-256"}, "content": {"pattern": "^[a-f0-9]{64}$"}},
            },
        },
        "properties": {"type": "array", "items": {**STRICT, "properties": {"name": {}, "value": {"type": "string"}}}},
    },
}
UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
CYCLONEDX = {
    **STRICT,
    "required": ["bomFormat", "specVersion"],
    "properties": {
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": "1.5"},
        "version": {"type": "integer", "minimum": 1},
        "serialNumber": {"type": "string", "pattern": f"^urn:uuid:{UUID}$"},
        "metadata": {
            **STRICT,
            "properties": {
                "component": COMPONENT,
                "tools": {**STRICT, "properties": {"components": {"type": "array", "items": COMPONENT}}},
            },
        },
        "components": {"type": "array", "uniqueItems": True, "items": COMPONENT},
        "dependencies": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                **STRICT,
                "required": ["ref"],
                "properties": {"ref": {"type": "string"}, "dependsOn": {"type": "array", "uniqueItems": True}},
            },
        },
    },
}
"""What the 1.5 schema asks of the parts that are written, in our words; no other part is."""


@pytest.fixture(scope="module")
def tools():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import licences
        import packages
        import sbom

        yield packages, licences, sbom
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def environment(tools):
    return tools[0].Environment.read()


@pytest.fixture(scope="module")
def made(tools, environment):
    return tools[2].document(environment)


def test_it_is_built_as_cyclonedx_asks(made):
    Draft7Validator(CYCLONEDX).validate(made)
    several = [each["licenses"] for each in made["components"] if len(each.get("licenses", ())) > 1]
    assert all("license" in each for licences in several for each in licences), "an expression stands alone"


def test_every_installed_package_is_in_it_once_with_its_version(made):
    there = {(canonicalize_name(each.metadata["Name"]), each.version) for each in distributions()}
    listed = [(canonicalize_name(each["name"]), each["version"]) for each in made["components"]]
    own = made["metadata"]["component"]
    assert sorted(listed) == sorted({pair for pair in there if pair[0] != "fluoroscope"})
    assert own["name"] == "fluoroscope"
    assert own["licenses"] == [{"expression": "Apache-2.0"}]


def test_every_hash_is_that_of_the_lock_and_every_package_of_the_lock_has_one(made):
    text = (ROOT / "requirements.lock").read_text()
    for each in made["components"]:
        line = f"{canonicalize_name(each['name'])}=={each['version']} ".lower()
        locked = [row for row in text.splitlines() if _plain(row).startswith(line)]
        assert [h["content"] for h in each.get("hashes", ())] == [
            h for row in locked for h in re.findall("[0-9a-f]{64}", row)
        ]


def _plain(row: str) -> str:
    name, equals, rest = row.partition("==")
    return f"{canonicalize_name(name)}{equals}{rest}"


def test_who_needs_whom_names_packages_that_are_in_it(made):
    refs = {each["bom-ref"] for each in made["components"]} | {made["metadata"]["component"]["bom-ref"]}
    needs = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    assert set(needs) == refs
    assert {other for others in needs.values() for other in others} <= refs
    own = {ref.split("@")[0] for ref in needs[made["metadata"]["component"]["bom-ref"]]}
    assert {"pkg:pypi/torch", "pkg:pypi/flwr", "pkg:pypi/ray"} <= own, "ray comes with flwr[simulation]"
    assert "pkg:pypi/pytest" not in own


def test_what_only_developers_need_is_said_to_be_so(made):
    scopes = {each["name"]: each["scope"] for each in made["components"]}
    assert {scopes[name] for name in ("pytest", "mypy", "ruff")} == {"excluded"}
    assert {scopes[name] for name in ("torch", "numpy", "safetensors", "cryptography")} == {"required"}


def test_the_same_environment_gives_the_same_document(tools, environment, made):
    assert tools[2].document(environment) == made


def test_the_licences_of_all_are_listed_and_what_is_unknown_is_named(tools, environment):
    lines = tools[1].table(environment)
    rows = lines[1 : lines.index("")]
    assert len(rows) == len(environment.packages)
    assert next(row for row in rows if row.startswith("numpy ")).split()[2:4] == ["yes", "BSD-3-Clause"]
    silent = [each.name for each in environment.packages.values() if each.licence == tools[0].NOT_STATED]
    assert lines[-1] == f"To be asked of their authors: {', '.join(silent)}."


def test_a_licence_that_is_a_whole_text_is_known_by_its_classifier(tools):
    named = tools[0]._licences
    assert list(named("Copyright (c) 2001\nRedistribution ...", ["License :: OSI Approved :: BSD License"])) == [
        "BSD License"
    ]
    assert list(named("UNKNOWN", [])) == []
    assert list(named("MIT", ["License :: OSI Approved :: BSD License"])) == ["MIT"]
