"""Numbers that say where they come from: each is a `<span>` with its address in findings.json."""

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from fluoroscope.findings import Score, Text
from fluoroscope.findings.metrics import metric
from fluoroscope.findings.pointer import pointer, resolve

NOTHING = "–"
_VALUE = "/value"


def plain(document: dict[str, Any], text: Text) -> str:
    """The sentence as a terminal shows it."""
    found = [(resolve(document, number.pointer), number.format) for number in text.numbers]
    return text.text.format(*("(not measured)" if value is None else format(value, how) for value, how in found))


@dataclass(frozen=True)
class Traced:
    """Writes the numbers of one document."""

    document: dict[str, Any]
    attribute: str = "data-finding"

    def number(self, address: str, how: str, nothing: str = NOTHING) -> Markup:
        """The number at an address, written as `how` says; `nothing` where it is null."""
        value = resolve(self.document, address)
        text = nothing if value is None else format(value, how)
        return Markup('<span class="n" {}="{}" data-format="{}">{}</span>').format(
            Markup(self.attribute), address, how, text
        )

    def count(self, *steps: object) -> Markup:
        """A whole number."""
        return self.number(pointer(*steps), "d")

    def score(self, cell: int, name: str, score: Score | None) -> Markup:
        """A score with its interval as a table shows it."""
        if score is None:
            return Markup(NOTHING)
        at, how = pointer("cells", cell, "scores", name), metric(name).format
        value = self.number(at + _VALUE, how)
        if score.low is None or score.high is None:
            return value
        ends = (self.number(f"{at}/{end}", how) for end in ("low", "high"))
        return value + Markup(' <small class="interval">[{}, {}]</small>').format(*ends)

    def sentence(self, text: Text) -> Markup:
        """The sentence with its numbers in their places."""
        numbers = [self.number(number.pointer, number.format, "(not measured)") for number in text.numbers]
        return escape(text.text).format(*numbers)

    def intervals(self, text: Text) -> list[Markup]:
        """In words, how sure each score of the sentence is, where it does not say so itself."""
        said: dict[str, Markup] = {}
        spoken = {number.pointer for number in text.numbers}
        for number in text.numbers:
            at = number.pointer.removesuffix(_VALUE)
            found = resolve(self.document, at)
            if at == number.pointer or not isinstance(found, dict) or at in said or f"{at}/low" in spoken:
                continue
            if found.get("low") is None or found.get("high") is None or found.get("value") is None:
                continue
            low, high = (self.number(f"{at}/{end}", number.format) for end in ("low", "high"))
            words = Markup("{}: {}, with 95 % confidence between {} and {}").format(
                self._called(at), self.number(number.pointer, number.format), low, high
            )
            if found.get("n") is not None:
                words += Markup(" (n = {})").format(self.number(f"{at}/n", "d"))
            said[at] = words
        return list(said.values())

    def _called(self, score: str) -> str:
        """The score at an address, for a reader who knows no abbreviation."""
        cell, _, name = score.rpartition("/scores/")
        found = metric(name, resolve(self.document, cell)["kind"])
        return found.in_words or found.title
