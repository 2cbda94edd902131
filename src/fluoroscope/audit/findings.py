"""The findings of an audit, put together from its cells: data, no page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fluoroscope.audit.cell import AuditCell, FoundCell
from fluoroscope.audit.claim import contradicted
from fluoroscope.audit.gallery import write_gallery
from fluoroscope.audit.kept import finding_of
from fluoroscope.audit.plan import AuditPlan
from fluoroscope.audit.verdicts import Verdicts
from fluoroscope.cells import Outcome
from fluoroscope.federation.data_plan import shown_source
from fluoroscope.federation.plan import shown_defence
from fluoroscope.federation.server import versions
from fluoroscope.findings import FORMAT, Cell, Claim, Client, Data, Defence, Finding, Findings, Status, Threat
from fluoroscope.threat_models.words import THREATS_IN_WORDS

_NOT_TRAINED = Claim(statement="not known: its federation was not trained")


def assembled(
    plan: AuditPlan, cells: Sequence[AuditCell], outcomes: Mapping[str, Outcome], left_out: Mapping[str, str], out: Path
) -> Findings:
    """What findings.json will hold; the gallery's images are written beside it."""
    made, found = found_cells(cells, outcomes, left_out, out)
    made = tuple(_without_paths(cell, plan) for cell in made)
    claims = {cell.label: found[cell.id].claim for cell in cells if cell.id in found and found[cell.id].claim}
    claims |= contradicted(made)
    verdicts = Verdicts(plan, made)
    return Findings(
        format=FORMAT,
        title=f"What {plan.task.images.name} would leak in this federation",
        seed=plan.seed,
        preset=plan.audit.preset,
        plan=plan.shown(),
        versions=versions(),
        data=_data(plan),
        defences=tuple(
            Defence(
                label=label,
                parts=tuple(shown_defence(part.model_dump(mode="json")) for part in parts),
                claim=claims.get(label) or _NOT_TRAINED,
            )
            for label, parts in plan.labels.items()
        ),
        threats=tuple(threat_in_words(name) for name in plan.audit.threats),
        verdicts=verdicts.all(),
        sizes=verdicts.sizes(),
        own=plan.own,
        recommendation=verdicts.recommendation(),
        safe_to_say=verdicts.safe_to_say(),
        not_safe_to_say=verdicts.not_safe_to_say(),
        cells=made,
        left_out=tuple(f"{name}: {why}" for name, why in left_out.items()),
    )


def found_cells(
    cells: Sequence[FoundCell], outcomes: Mapping[str, Outcome], left_out: Mapping[str, str], out: Path
) -> tuple[tuple[Cell, ...], dict[str, Finding]]:
    """Every cell as findings hold it, and what those found that have a result; the gallery is written to `out`."""
    found = {name: finding_of(outcome.result) for name, outcome in outcomes.items()}
    for name, finding in found.items():
        write_gallery(finding.gallery, outcomes[name].result.images, out)
    made = (_cell(cell, found.get(cell.id), outcomes.get(cell.id), left_out.get(cell.id)) for cell in cells)
    return tuple(made), found


def _cell(cell: FoundCell, finding: Finding | None, outcome: Outcome | None, left_out: str | None) -> Cell:
    found = finding or Finding()
    made = Cell(
        id=cell.id,
        kind=cell.kind,
        threat=cell.threat,
        defence=cell.label,
        settings=cell.settings,
        status=_status(found, outcome),
        reason=left_out if outcome is None else outcome.failed or found.gave_up,
        scores=found.scores,
        curves=found.curves,
        gallery=found.gallery,
        verdicts=found.verdicts,
    )
    said = {"attacked": found.attacked, "rehearsed": found.rehearsed}
    return made.model_copy(update={key: value for key, value in said.items() if value})


def _without_paths(cell: Cell, plan: AuditPlan) -> Cell:
    """What went wrong, without the folders that its sentence names: findings are sent around."""
    reason = cell.reason
    for source in plan.data.sources if reason else ():
        reason = str(reason).replace(source.rpartition(":")[2], shown_source(source).rpartition(":")[2])
    return cell if reason == cell.reason else cell.model_copy(update={"reason": reason})


def _status(found: Finding, outcome: Outcome | None) -> Status:
    if outcome is None:
        return "left out"
    silent = found.scores.get("gave_up")
    return "failed" if outcome.failed else "gave up" if silent and silent.value == silent.n else "done"


def _data(plan: AuditPlan) -> Data:
    images = plan.task.images
    return Data(
        name=images.name,
        licence=images.licence,
        synthetic=images.synthetic,
        images=len(images),
        size=images.size,
        classes=tuple(images.classes),
        clients=tuple(
            Client(
                name=split.name,
                train=len(split.train),
                validation=len(split.validation),
                batch_size=split.batch_size or plan.training.batch_size,
            )
            for split in plan.task.clients
        ),
    )


def threat_in_words(name: str) -> Threat:
    """Who attacks, as the page introduces them."""
    words = THREATS_IN_WORDS[name]
    return Threat(
        name=name,
        title=words["title"],
        assumed=tuple(words["assumed"]),
        can=tuple(words["can"]),
        cannot=tuple(words["cannot"]),
    )
