"""Findings as the document that is written: checked before anything is, so that no reader meets what is at odds."""

from pydantic import JsonValue

from fluoroscope.errors import FluoroscopeError
from fluoroscope.findings.consistency import at_odds
from fluoroscope.findings.document import Findings


def document_of(findings: Findings) -> dict[str, JsonValue]:
    """What findings.json holds: the keys that were set.

    Raises:
        FluoroscopeError: where a part contradicts another, such as a sentence whose number is not there.
    """
    document: dict[str, JsonValue] = findings.model_dump(mode="json", exclude_unset=True)
    for problem in at_odds(findings, document):
        raise FluoroscopeError(
            f"the findings are at odds with themselves, and findings.json was not written: {problem}. This is a fault "
            "of fluoroscope: report it with the plan. The finished cells are kept."
        )
    return document
