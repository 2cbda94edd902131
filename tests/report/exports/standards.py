"""Strict checks of what we write, in our own words: the part of SARIF 2.1.0 and of JUnit's XML that exports use.

Neither standard's schema lies here (SARIF's is 112 KB, and JUnit's needs a validator of XML schemas). These checks are
narrower: what they pass is a subset of what the standards allow.
"""

import re
from xml.etree import ElementTree as ET

import jsonschema

_TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string", "minLength": 1}},
    "required": ["text"],
    "additionalProperties": False,
}
_PROPERTIES = {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}}


def _only(required, **properties):
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(items, **more):
    return {"type": "array", "items": items, **more}


_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_RULE = _only(
    ["id", "shortDescription", "fullDescription", "help"],
    id={"type": "string", "minLength": 1},
    name={"type": "string", "pattern": "^[A-Z][A-Za-z]+$"},
    shortDescription=_TEXT,
    fullDescription=_TEXT,
    help=_TEXT,
    defaultConfiguration=_only(["level"], level=_LEVEL),
    properties=_PROPERTIES,
)
_LOCATION = _only(
    ["physicalLocation"],
    physicalLocation=_only(
        ["artifactLocation"],
        artifactLocation=_only(["uri"], uri={"type": "string", "pattern": "^[^/:\\\\]+$"}),
        region=_only(["startLine"], startLine={"type": "integer", "minimum": 1}),
    ),
    logicalLocations=_list(_only([], fullyQualifiedName={"type": "string"}), minItems=1),
)
_SUPPRESSION = _only(
    ["kind"],
    kind={"enum": ["inSource", "external"]},
    status={"enum": ["accepted", "underReview", "rejected"]},
    justification={"type": "string"},
    properties=_PROPERTIES,
)
_RESULT = {
    **_only(
        ["ruleId", "ruleIndex", "kind", "level", "message", "locations", "partialFingerprints"],
        ruleId={"type": "string"},
        ruleIndex={"type": "integer", "minimum": 0},
        kind={"enum": ["pass", "fail"]},
        level=_LEVEL,
        message=_TEXT,
        locations=_list(_LOCATION, minItems=1),
        partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
        suppressions=_list(_SUPPRESSION),
        properties=_PROPERTIES,
    ),
    # The standard: a result that does not fail has the level none.
    "if": {"properties": {"kind": {"const": "pass"}}},
    "then": {"properties": {"level": {"const": "none"}}},
    "else": {"properties": {"level": {"enum": ["note", "warning", "error"]}}},
}
_RUN = _only(
    ["tool", "results", "invocations"],
    tool=_only(
        ["driver"],
        driver=_only(["name", "rules"], name={"type": "string"}, version={"type": "string"}, rules=_list(_RULE)),
    ),
    invocations=_list(
        _only(
            ["executionSuccessful"],
            executionSuccessful={"type": "boolean"},
            toolConfigurationNotifications=_list(_only(["message"], level=_LEVEL, message=_TEXT)),
        )
    ),
    results=_list(_RESULT),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    properties=_PROPERTIES,
)
SARIF = _only(
    ["version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}, "version": {"const": "2.1.0"}, "runs": _list(_RUN)},
)


def check_sarif(document):
    """Raise where the document is not what SARIF's readers expect."""
    jsonschema.Draft7Validator.check_schema(SARIF)
    jsonschema.Draft7Validator(SARIF).validate(document)
    for run in document["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        assert len(set(rules)) == len(rules)
        for result in run["results"]:
            assert rules[result["ruleIndex"]] == result["ruleId"], "a rule that is not declared"


_JUNIT = {
    "testsuites": ({"name", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"skipped"}, {"properties", "testcase", "system-err"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"classname"}, {"failure", "error", "skipped"}),
    "failure": ({"type", "message"}, set(), set()),
    "error": ({"type", "message"}, set(), set()),
    "skipped": ({"message"}, {"type"}, set()),
    "system-err": (set(), set(), set()),
}
"""Element: its attributes, those that may be there, and its children."""


def check_junit(text):
    """The root of a document that CI systems read; raises where it is none."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        required, optional, children = _JUNIT[element.tag]
        assert required <= set(element.keys()) <= required | optional, element.tag
        assert {child.tag for child in element} <= children, element.tag
    for suite in root.iter("testsuite"):
        cases = suite.findall("testcase")
        assert all(len(case) <= 1 for case in cases), "one outcome per test"
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(name)) == sum(case.find(tag) is not None for case in cases)
        assert int(suite.get("tests")) == len(cases)
        order = re.sub(r"(testcase )+", "testcase ", " ".join(child.tag for child in suite) + " ")
        assert order in ("properties testcase ", "properties testcase system-err ")
    return root
