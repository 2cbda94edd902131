"""An audit without any name: fit for an airlock. What is kept is listed here; everything else is left behind.

Sentences of an audit name hospitals and files, so none is taken over: each is written again from its numbers. Positions
stay as they are, so an address points at the same number in both documents.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from fluoroscope import findings as audited
from fluoroscope.findings import GUARD, NO_DEFENCE, Audit, Findings, document_of
from fluoroscope.findings.metrics import KINDS, LEAKS, declared, metric
from fluoroscope.findings.pointer import pointer

TITLE = "What this federation leaks, in numbers"
WITHHELD = "(withheld: it may name a place or a person)"
_WORD = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""Names that the program gives: of attacks, defences and models."""
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]{0,30}")
_WORDS = ("attack", "model", "shadow", "rehearsed", "name")
_CLIENTS = ("client", "clients", "attacker", "target", "victim")
_UNSAFE = (
    "That other attacks would fail too: an audit finds what leaks by the attacks that it has, and bounds none that it "
    "has not.",
    "That other hospitals, other images or more rounds leak as little: the numbers are of this plan.",
)


def numbers_only(audit: Audit) -> Audit:
    """The same audit without images, paths, sentences and names of hospitals, people or machines.

    Args:
        audit: as `read_findings` gives it; it stays as it is.

    Returns:
        One whose document holds numbers, and words of fluoroscope's own. No timing, as it names cells.
    """
    findings = _Scrub.of(audit.findings).findings()
    return Audit(audit.folder, findings, document_of(findings), None)


@dataclass(frozen=True)
class _Scrub:
    """The names of one audit, and what stands in their place."""

    of_audit: Findings
    clients: Mapping[str, str]
    labels: Mapping[str, str]
    ids: Mapping[str, str]
    names: tuple[str, ...]
    """What must not be found in a word that is kept."""

    @classmethod
    def of(cls, found: Findings) -> "_Scrub":
        clients = {client.name: f"client {i}" for i, client in enumerate(found.data.clients, 1)}
        settings = [each for each in found.defences if each.label != NO_DEFENCE]
        names = tuple(each for each in (*clients, found.data.name, *_folders(found.plan)) if each)
        labels = {NO_DEFENCE: NO_DEFENCE, GUARD: GUARD}
        for i, each in enumerate(settings, 1):
            kinds = [str(part["name"]) for part in each.parts if isinstance(part, dict) and "name" in part]
            kept = [word for word in kinds if _is_word(word, names)]
            labels[each.label] = f"setting {i}" + (f" ({' + '.join(kept)})" if kept else "")
        ids = {cell.id: f"{cell.kind}-{i}" for i, cell in enumerate(found.cells, 1)}
        return cls(found, clients, labels, ids, names)

    def findings(self) -> Findings:
        found = self.of_audit
        cells = tuple(self._cell(cell) for cell in found.cells)
        return Findings(
            format=found.format,
            title=TITLE,
            seed=found.seed,
            plan={},
            versions={k: v for k, v in found.versions.items() if self._word(k) and _VERSION.fullmatch(v)},
            data=self._data(found.data),
            defences=tuple(self._defence(each) for each in found.defences),
            threats=tuple(self._threat(each) for each in found.threats),
            verdicts=tuple(self._verdict(each, cells) for each in found.verdicts),
            sizes=found.sizes,
            own=None if found.own is None else self.labels[found.own],
            recommendation=self._recommendation(cells),
            not_safe_to_say=tuple(audited.Text(text=words) for words in _UNSAFE),
            cells=cells,
            left_out=(f"Remarks of this audit that are not repeated here: {WITHHELD}.",) if found.left_out else (),
        )

    def _data(self, data: audited.Data) -> audited.Data:
        return audited.Data(
            name="phantoms" if data.synthetic else "a federation's images",
            licence="not repeated here",
            synthetic=data.synthetic,
            images=data.images,
            size=data.size,
            classes=tuple(f"class {i}" for i, _ in enumerate(data.classes, 1)),
            clients=tuple(
                audited.Client(
                    name=self._client(c.name), train=c.train, validation=c.validation, batch_size=c.batch_size
                )
                for c in data.clients
            ),
        )

    def _defence(self, defence: audited.Defence) -> audited.Defence:
        said = defence.claim
        statement = "differential privacy" if said.epsilon is not None else "no epsilon is counted"
        if said.statement.startswith("CONTRADICTED"):
            statement = "CONTRADICTED: canaries prove a larger epsilon than is claimed"
        claim = audited.Claim(
            epsilon=said.epsilon,
            delta=said.delta,
            unit=self._word(said.unit),
            statement=statement,
            relation=self._word(said.relation),
            trust=self._word(said.trust),
        )
        parts = tuple(self._settings(part) for part in defence.parts if isinstance(part, dict))
        return audited.Defence(label=self.labels[defence.label], parts=parts, claim=claim)

    def _threat(self, threat: audited.Threat) -> audited.Threat:
        def said(sentences: Iterable[str]) -> tuple[str, ...]:
            return tuple(each for each in sentences if not self._names(each))

        return audited.Threat(
            name=threat.name,
            title=threat.name.replace("-", " ").capitalize(),
            assumed=said(threat.assumed),
            can=said(threat.can),
            cannot=said(threat.cannot),
        )

    def _verdict(self, verdict: audited.Verdict, cells: tuple[audited.Cell, ...]) -> audited.Verdict:
        levels = tuple(self._level(each, cells) for each in verdict.levels)
        stop = None if verdict.stopped_by is None else self.labels[verdict.stopped_by]
        shown = next((each for each in levels if each.level == verdict.level), next(iter(levels), None))
        text = audited.Text(text="Not said setting by setting.") if shown is None else shown.why
        return audited.Verdict(threat=verdict.threat, level=verdict.level, text=text, stopped_by=stop, levels=levels)

    def _level(self, level: audited.SettingLevel, cells: tuple[audited.Cell, ...]) -> audited.SettingLevel:
        kinds = tuple(
            audited.KindLevel(
                kind=each.kind,
                level=each.level,
                why=_numbers(self._place(each.cell), each.kind, each.level, cells),
                cell=None if each.cell is None else self.ids[each.cell],
            )
            for each in level.kinds
        )
        label = self.labels[level.defence]
        why = (
            _joined([audited.Text(text=f"Under {label}."), *(_after_space(each.why) for each in kinds)])
            if kinds
            else audited.Text(text=WITHHELD)
        )
        return audited.SettingLevel(defence=label, level=level.level, why=why, kinds=kinds)

    def _recommendation(self, cells: tuple[audited.Cell, ...]) -> audited.Recommendation:
        said = self.of_audit.recommendation.defence
        if said is None:
            return audited.Recommendation(
                defence=None, text=audited.Text(text="No setting is shown to stop everything that leaks.")
            )
        parts = [audited.Text(text=f"Recommended: {self.labels[said]}.")]
        for label in dict.fromkeys((NO_DEFENCE, said)):
            place = next((i for i, c in enumerate(self.of_audit.cells) if _trained(c, label)), None)
            if place is not None:
                parts.append(audited.Text(text=f" Accuracy under {self.labels[label]}: "))
                parts.append(_score(place, "accuracy", cells[place]))
                parts.append(audited.Text(text="."))
        return audited.Recommendation(defence=self.labels[said], text=_joined(parts))

    def _cell(self, cell: audited.Cell) -> audited.Cell:
        made = audited.Cell(
            id=self.ids[cell.id],
            kind=cell.kind,
            threat=cell.threat,
            defence=self.labels[cell.defence],
            settings=self._settings(cell.settings),
            status=cell.status,
            reason=None if cell.reason is None else WITHHELD,
            scores={name: score for name, score in cell.scores.items() if declared(name, cell.kind)},
            verdicts=tuple(
                audited.GuardVerdict(client=self._client(v.client), refused=v.refused) for v in cell.verdicts
            ),
        )
        rehearsed = tuple(self._rehearsed(each, i) for i, each in enumerate(cell.rehearsed, 1))
        said = {"attacked": cell.attacked, "rehearsed": rehearsed}
        return made.model_copy(update={key: value for key, value in said.items() if value})

    def _rehearsed(self, each: audited.RehearsedAttack, number: int) -> audited.RehearsedAttack:
        name = self._word(each.attack) or f"attack {number}"
        return each.model_copy(update={"attack": name, "reason": None if each.reason is None else WITHHELD})

    def _settings(self, settings: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Numbers, the program's own words, and clients by their number."""
        kept: dict[str, JsonValue] = {}
        for key, value in settings.items():
            if self._word(key.replace("_", "-")) is None:
                continue
            if isinstance(value, bool | int | float):
                kept[key] = value
            elif key in _CLIENTS and isinstance(value, str):
                kept[key] = self._client(value)
            elif key in _CLIENTS and isinstance(value, list):
                kept[key] = [self._client(str(each)) for each in value]
            elif key in _WORDS and isinstance(value, str) and self._word(value):
                kept[key] = value
        return kept

    def _client(self, name: str) -> str:
        return self.clients.get(name, "another client")

    def _place(self, cell: str | None) -> int | None:
        return None if cell is None else list(self.ids).index(cell)

    def _word(self, value: str | None) -> str | None:
        return value if value is not None and _is_word(value, self.names) else None

    def _names(self, sentence: str) -> bool:
        own = (*self.clients, self.of_audit.data.name)
        return "/" in sentence or "\\" in sentence or any(_holds(sentence, name) for name in own if name)


def _is_word(value: str, names: Iterable[str]) -> bool:
    return _WORD.fullmatch(value) is not None and not any(_holds(value, name) for name in names)


def _holds(text: str, name: str) -> bool:
    """Whether a name stands in a text, not as a part of a longer word."""
    return re.search(rf"(?<![a-z0-9]){re.escape(name.lower())}(?![a-z0-9])", text.lower()) is not None


def _folders(value: JsonValue) -> Iterable[str]:
    """The parts of every path, source and import path in a plan."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _folders(each)
    elif isinstance(value, str) and re.search(r"[/\\:]", value):
        yield from (part for part in re.split(r"[/\\:]", value) if len(part) > 1)


def _trained(cell: audited.Cell, label: str) -> bool:
    return cell.kind == "federation" and cell.defence == label and cell.status == "done" and "accuracy" in cell.scores


def _numbers(
    place: int | None, kind: audited.Kind, level: audited.Level, cells: tuple[audited.Cell, ...]
) -> audited.Text:
    """The scores of the cell that decided, beside what guessing reaches."""
    guarded = " with the guard; without it" if (kind, level) == ("crafted-model", "holds") else ""
    parts = [audited.Text(text=f"{KINDS[kind]}: {level}{guarded}")]
    if place is not None and cells[place].status == "done":
        cell = cells[place]
        for name in (name for name in LEAKS.get(cell.kind, ()) if name in cell.scores):
            parts += [audited.Text(text=f"; {metric(name, cell.kind).label} "), _score(place, name, cell)]
    return _joined([*parts, audited.Text(text=".")])


def _after_space(text: audited.Text) -> audited.Text:
    return text.model_copy(update={"text": f" {text.text}"})


def _score(place: int, name: str, cell: audited.Cell) -> audited.Text:
    how, score, at = metric(name, cell.kind).format, cell.scores[name], pointer("cells", place, "scores", name)
    ends = ["value", *(["low", "high"] if score.low is not None and score.high is not None else [])]
    ends += ["chance"] if score.chance is not None else []
    words = "{0}" + (" (95 % interval {1} to {2})" if "low" in ends else "")
    words += f", where guessing reaches {{{len(ends) - 1}}}" if "chance" in ends else ""
    return audited.Text(text=words, numbers=tuple(audited.Number(pointer=f"{at}/{end}", format=how) for end in ends))


def _joined(parts: Iterable[audited.Text]) -> audited.Text:
    """Several texts as one: the places of the later ones move up."""
    words: list[str] = []
    numbers: list[audited.Number] = []
    for part in parts:
        places = [f"{{{len(numbers) + i}}}" for i in range(len(part.numbers))]
        words.append(part.text.format(*places))
        numbers += part.numbers
    return audited.Text(text="".join(words), numbers=tuple(numbers))
