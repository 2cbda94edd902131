"""How sure a sentence of the first screen is: how often it was measured, and between which ends the true value lies."""

from collections.abc import Mapping

from markupsafe import Markup

from fluoroscope.findings import Kind
from fluoroscope.findings.pointer import pointer
from fluoroscope.report.view import View

_JUDGED: Mapping[Kind, str] = {
    "reconstruction": "told_apart", "crafted-model": "rate", "client-inference": "auc", "membership": "auc",
    "source": "accuracy", "label-counts": "error",
}  # fmt: skip
"""The score that the sentence of each kind of attack rests on."""


def how_sure(view: View, place: int) -> Markup | None:
    """The interval of what decided in one cell, with the number of measurements; None where no score decides."""
    cell = view.audit.findings.cells[place]
    name = _JUDGED.get(cell.kind)
    score = cell.scores.get(name) if name else None
    if name is None or score is None or score.value is None or cell.status != "done":
        return None
    if score.low is None or score.high is None or score.n is None:
        return view.words.say("sure.once")

    def written(end: str, how: str) -> Markup:
        return view.write.number(pointer("cells", place, "scores", name, end), how)

    told = {"n": written("n", ".0f"), "low": written("low", ".0%"), "high": written("high", ".0%")}
    if f"sure.{cell.kind}" in view.words:
        return view.words.say(f"sure.{cell.kind}", **told)
    return view.words.say("sure.other", **told)
