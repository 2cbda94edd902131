"""A sentence whose numbers point to findings: none is typed by hand."""

from typing import Self

from fluoroscope.findings import Cell, Number, Text
from fluoroscope.findings.pointer import pointer


class Sentence:
    """Words and numbers, in turn. Cells are named by their place in the findings."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._numbers: list[Number] = []

    def say(self, words: str) -> Self:
        """Words as they are; braces are only braces."""
        self._words.append(words.replace("{", "{{").replace("}", "}}"))
        return self

    def number(self, place: int, metric: str, end: str = "value", how: str = ".2f") -> Self:
        """A score of a cell, or an end of its interval."""
        self._words.append(f"{{{len(self._numbers)}}}")
        self._numbers.append(Number(pointer=pointer("cells", place, "scores", metric, end), format=how))
        return self

    def interval(self, place: int, cell: Cell, metric: str) -> Self:
        """A score and how sure it is; one value alone has no interval, and says so."""
        self.number(place, metric)
        if cell.scores[metric].low is None:
            return self.say(" (one value: no interval)")
        self.say(" (95 % interval ").number(place, metric, "low").say(" to ")
        return self.number(place, metric, "high").say(")")

    @property
    def text(self) -> Text:
        """The sentence as findings hold it."""
        return Text(text="".join(self._words), numbers=tuple(self._numbers))
