"""An audit as the sections see it: its cells by kind, and the pen that writes traced numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from fluoroscope.findings import NO_DEFENCE, Audit, Cell, Findings, Kind, Score, Text
from fluoroscope.findings.metrics import ATTACKED, metric_of
from fluoroscope.findings.pointer import pointer
from fluoroscope.report.catalogue import Catalogue, catalogue
from fluoroscope.report.traced import NOTHING, Traced

Placed = tuple[int, Cell]
"""A cell with its position in the findings."""


@dataclass(frozen=True)
class View:
    """What a section is made from."""

    audit: Audit
    write: Traced
    blur: bool
    """Whether images are blurred: they are patients', and nobody asked to see them."""
    words: Catalogue = field(default_factory=catalogue)
    """The sentences of the page."""

    @property
    def defences(self) -> list[str]:
        return [defence.label for defence in self.audit.findings.defences]

    @property
    def has_images(self) -> bool:
        """Whether the gallery came along: `clean` removes it, and findings can be sent without it."""
        return (self.audit.folder / "gallery").exists()

    def done(self, *kinds: Kind) -> list[Placed]:
        """Cells of these kinds that have a result, those of one defence together."""
        found = [(i, c) for i, c in enumerate(self.audit.findings.cells) if c.kind in kinds and c.status == "done"]
        return sorted(found, key=lambda placed: (kinds.index(placed[1].kind), self.defences.index(placed[1].defence)))

    def setting(self, placed: Placed, key: str) -> Markup:
        """A setting of a cell; a number is traced."""
        i, cell = placed
        value = cell.settings.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self.write.number(pointer("cells", i, "settings", key), "g")
        return Markup(NOTHING) if value is None else escape(str(value))

    def where(self, placed: Placed, keys: Sequence[str]) -> Markup:
        """The defence and these settings of a cell in one line."""
        named = [Markup("{} {}").format(key, self.setting(placed, key)) for key in keys if key in placed[1].settings]
        return Markup(" · ").join([escape(placed[1].defence), *named])

    def attacked(self, text: Text) -> list[str]:
        """In words, what the reconstructions whose numbers are in the sentence were measured on."""
        cells = self.audit.findings.cells
        steps = [number.pointer.split("/") for number in text.numbers]
        return attacked_in_words([cells[int(step[2])] for step in steps if step[1] == "cells"])


_OWN = ("as planned", "as recorded")
"""What the federation's own setting is called in files of versions that did not name it."""


def setting_today(findings: Findings) -> str:
    """The label of the setting that the federation has now."""
    called = (defence.label for defence in findings.defences if defence.label in _OWN)
    return findings.own or next(called, NO_DEFENCE)


_NAMED = 6
"""Hospitals that a line names; of more it says how many there are."""


def clients_in_words(view: View) -> str:
    """The hospitals' names, or of many their number."""
    names = [client.name for client in view.audit.findings.data.clients]
    if len(names) <= _NAMED:
        return ", ".join(names)
    return view.words.plain("page.many_clients", count=len(names), first=names[0], last=names[-1])


PLACES = ("attack", "client", "round", "seed")
"""Settings that say which cell it is, in the order in which people say them."""


def differing(cells: Sequence[Placed], keys: Sequence[str] | None = None) -> list[str]:
    """Those of these settings, or of all, in which the cells differ."""
    every = dict.fromkeys([*PLACES, *(key for _, cell in cells for key in cell.settings)])
    return [
        key for key in (every if keys is None else keys) if len({str(cell.settings.get(key)) for _, cell in cells}) > 1
    ]


def named(cell: Cell, keys: Sequence[str]) -> str:
    """The cell by these settings, for a legend."""
    said = {key: str(cell.settings[key]) for key in keys if key in cell.settings}
    return ", ".join(text if key in ("attack", "client") else f"{key} {text}" for key, text in said.items())


def attacked_in_words(cells: Iterable[Cell]) -> list[str]:
    """What these cells were measured on, each way once; nothing of those that do not say."""
    return list(dict.fromkeys(ATTACKED[cell.attacked] for cell in cells if cell.attacked is not None))


def leakiest(cells: Sequence[Placed], name: str) -> tuple[int, Score] | None:
    """The cell in which this score is worst for the patients: chosen, not computed."""
    found = [(i, cell) for i, cell in cells if name in cell.scores and cell.scores[name].value is not None]
    worst = max(found, key=lambda placed: _leak(placed[1], name), default=None)
    return None if worst is None else (worst[0], worst[1].scores[name])


def _leak(cell: Cell, name: str) -> float:
    score = cell.scores[name]
    return metric_of(cell.kind, name, score).leak(score.value or 0.0)
