"""The findings of recorded updates: the same document as a plan's, without what only a plan can know."""

from collections.abc import Mapping
from pathlib import Path

from fluoroscope.audit.findings import found_cells, threat_in_words
from fluoroscope.audit.in_words import unchecked
from fluoroscope.audit.levels import CHOSEN, REHEARSED, SIGNIFICANT, is_guess
from fluoroscope.audit.sentence import Sentence
from fluoroscope.audit.updates.asked import AskedUpdates, without_path
from fluoroscope.audit.verdicts import Verdicts
from fluoroscope.cells import Outcome
from fluoroscope.federation.server import versions
from fluoroscope.findings import (
    FORMAT,
    NO_DEFENCE,
    Cell,
    Claim,
    Client,
    Data,
    Defence,
    Findings,
    Recommendation,
    Text,
    Verdict,
)
from fluoroscope.types import NO_CLAIM


def found_in_updates(
    asked: AskedUpdates, outcomes: Mapping[str, Outcome], left_out: Mapping[str, str], out: Path
) -> Findings:
    """What findings.json will hold; the gallery's images are written beside it."""
    made, _ = found_cells(asked.cells, outcomes, left_out, out)
    cells = tuple(_without_paths(_chosen(cell), asked) for cell in made)
    verdicts = Verdicts(asked, cells)
    return Findings(
        format=FORMAT,
        title=_title(len(asked.updates)),
        seed=asked.seed,
        plan=asked.plain(),
        versions=versions(),
        data=_data(asked),
        defences=tuple(
            Defence(label=label, parts=parts, claim=_claim(asked, label)) for label, parts in asked.labels.items()
        ),
        threats=tuple(threat_in_words(name) for name in asked.threats),
        verdicts=verdicts.all(),
        sizes=verdicts.sizes(),
        own=asked.own,
        recommendation=_recommendation(verdicts.all()),
        safe_to_say=tuple(
            unchecked(Sentence(), (place, cell)).say(".").text
            for place, cell in enumerate(cells)
            if cell.settings["client"] not in asked.own_images and is_guess(cell)
        ),
        not_safe_to_say=tuple(Sentence().say(words).text for words in _unsafe(asked, cells, verdicts.all())),
        cells=cells,
        left_out=tuple(f"{name}: {why}" for name, why in left_out.items()),
    )


def _title(updates: int) -> str:
    return "What one recorded update leaks" if updates == 1 else f"What {updates} recorded updates leak"


def _chosen(cell: Cell) -> Cell:
    """An attack that works on simulated clients was chosen before anybody looked at this update, and is not the
    luckiest of many; any other must be rarer the more updates there are (see levels.py)."""
    score, p_value = cell.scores.get(REHEARSED.get(cell.kind, "")), cell.scores.get("rehearsal_p_value")
    works = score is not None and (score.low or 0.0) > 0 and p_value is not None and p_value.value is not None
    if not works or p_value is None or (p_value.value or 0.0) > SIGNIFICANT:
        return cell
    return cell.model_copy(update={"settings": {**cell.settings, "rehearsed": CHOSEN}})


def _without_paths(cell: Cell, asked: AskedUpdates) -> Cell:
    if cell.reason is None:
        return cell
    reason = cell.reason
    for told in asked.updates:
        for source in filter(None, (told.folder, told.images, told.public)):
            short = without_path(source)
            reason = reason.replace(source, short).replace(source.rpartition(":")[2], short.rpartition(":")[2])
    return cell.model_copy(update={"reason": reason})


def _data(asked: AskedUpdates) -> Data:
    own, first = asked.own_images, asked.updates[0]
    clients = dict.fromkeys(told.client for told in asked.updates)
    return Data(
        name=f"the recorded updates in {asked.folder.name}",
        licence="the sites' own" if not asked.synthetic else next(iter(own.values())).licence,
        synthetic=asked.synthetic,
        images=sum(_images(asked, client) for client in clients),
        size=max(first.shape[1:]),
        classes=first.classes,
        clients=tuple(
            Client(name=client, train=_images(asked, client), validation=0, batch_size=_batch(asked, client))
            for client in clients
        ),
    )


def _images(asked: AskedUpdates, client: str) -> int:
    """As its record says, or its images; 0 where nobody knows."""
    said = [each.training.images for (_, who), each in asked.about.items() if who == client and each.training]
    held = [told.holds for told in asked.updates if told.client == client and told.holds]
    return next(iter([*said, *([len(asked.own_images[client])] if client in asked.own_images else []), *held]), 0)


def _batch(asked: AskedUpdates, client: str) -> int | None:
    said = (each.training.batch_size for (_, who), each in asked.about.items() if who == client and each.training)
    return next(said, asked.batch_size)


def _claim(asked: AskedUpdates, label: str) -> Claim:
    if label == NO_DEFENCE:
        return Claim(statement=NO_CLAIM.statement)
    claim = asked.claim
    if claim == NO_CLAIM:
        return Claim(statement="a defence was told, and the records claim nothing of it")
    return Claim(
        epsilon=claim.epsilon,
        delta=claim.delta,
        unit=claim.unit,
        statement=f"{claim.statement} (as recorded; no canary tested it here)",
        relation=claim.relation,
        trust=claim.trust,
    )


def _recommendation(verdicts: tuple[Verdict, ...]) -> Recommendation:
    leaks = any(verdict.level == "leaks" for verdict in verdicts)
    words = (
        "These updates leak. Which defence would stop that was not tried on them: `fluoroscope calibrate` finds how "
        "much noise is needed, and `fluoroscope audit PLAN` compares defences."
        if leaks
        else "No leak was shown, and that there is none was not shown either: for that an attack that leaks without a "
        "defence must fail with it, which `fluoroscope audit PLAN` tries."
    )
    return Recommendation(defence=None, text=_text(words))


def _unsafe(asked: AskedUpdates, cells: tuple[Cell, ...], verdicts: tuple[Verdict, ...]) -> list[str]:
    words = [
        "That other attacks would fail too: an audit finds what leaks by the attacks that it has, and bounds none that "
        "it has not.",
        "That other sites, other images or other rounds leak as little: the numbers are of these updates.",
    ]
    if any(verdict.level in ("unclear", "not tested") for verdict in verdicts):
        words.append("That the curious server learns nothing: that was not shown.")
    without = sorted({told.client for told in asked.updates} - set(asked.own_images))
    if without:
        named = ", ".join(without)
        words.append(f"That guesses about {named} are right, or that they are wrong: those images are not here.")
    if asked.own:
        words.append(f"That “{asked.own}” helps: no update without it was attacked.")
    if asked.synthetic:
        words.append("That patients' images would leak alike: these are phantoms.")
    return words


def _text(words: str) -> Text:
    return Sentence().say(words).text
