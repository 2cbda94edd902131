"""JUnit XML, which every CI shows: a test per finding. Leaks and unclear fail, not tested is an error, accepted is
skipped: so a pipeline that looks at nothing else stops where the gate does."""

from xml.etree import ElementTree as ET

from fluoroscope.report.exports.brief import Brief
from fluoroscope.report.risks import Risk


def junit(brief: Brief) -> str:
    """The findings under the setting that is judged."""
    cases = [_case(brief, risk) for risk in brief.judged]
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
    }
    root = ET.Element("testsuites", {"name": "fluoroscope", **counts})
    skipped = str(sum(case.find("skipped") is not None for case in cases))
    suite = ET.SubElement(root, "testsuite", {"name": _clean(brief.setting), **counts, "skipped": skipped})
    properties = ET.SubElement(suite, "properties")
    for name, value in (("fluoroscope", brief.version), ("seed", str(brief.audit.findings.seed))):
        ET.SubElement(properties, "property", {"name": name, "value": _clean(value)})
    suite.extend(cases)
    if brief.review.remarks:
        ET.SubElement(suite, "system-err").text = _clean("\n".join(brief.review.remarks))
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(brief: Brief, risk: Risk) -> ET.Element:
    case = ET.Element("testcase", {"name": f"{risk.rule.title} [{risk.id}]", "classname": _clean(risk.threat)})
    accepted = brief.review.accepted.get(risk.id)
    if risk.level == "holds":
        return case
    if accepted is not None:
        words = f"{risk.level}; accepted by {accepted.owner} until {accepted.expires}: {accepted.reason}"
        ET.SubElement(case, "skipped", {"message": _clean(words)})
        return case
    tag = "error" if risk.level == "not tested" else "failure"
    told = ET.SubElement(case, tag, {"type": risk.level, "message": _clean(risk.why)})
    told.text = _clean(f"{risk.rule.asks} {risk.rule.remedy} See {risk.pointer} of findings.json.")
    return case


def _clean(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return "".join(
        c for c in text if c in "\n\t" or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff")
    )
