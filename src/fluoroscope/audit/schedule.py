"""Which cells an audit has, the cheap and telling ones first."""

from collections.abc import Iterator

from fluoroscope.audit.cell import AuditCell, told_apart
from fluoroscope.audit.claim import claim_cells
from fluoroscope.audit.client_metrics import ClientMetrics
from fluoroscope.audit.crafted_model import CraftedModel, Guard
from fluoroscope.audit.label_counts import LabelCounts
from fluoroscope.audit.membership import Membership
from fluoroscope.audit.participation import Participation
from fluoroscope.audit.plan import AuditPlan
from fluoroscope.audit.reconstruction import Reconstruction
from fluoroscope.audit.source import Source
from fluoroscope.audit.utility import Utility
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.task import load_task
from fluoroscope.findings import NO_DEFENCE


def cells_of(plan: AuditPlan) -> list[AuditCell]:
    """Everything that the plan asks for.

    First every threat once, without a defence and then setting by setting: the client with fewest images, in the last
    round. Then the other clients and rounds, and attacks that simulate the client. A budget leaves the last ones out.
    """
    labels = list(plan.labels)
    found: list[AuditCell] = [Utility(labels[0], _content(plan, labels[0]))]
    if "malicious-server" in plan.audit.threats:
        found += _crafted(plan)
    for label, following in zip(labels, [*labels[1:], None], strict=True):
        if following is not None:  # trained while others attack: nobody waits for it
            found.append(Utility(following, _content(plan, following)))
        found += _first(plan, label)
        found += claim_cells(plan, label)
    for label in labels:
        found += _further(plan, label)
    return told_apart(found)


def _crafted(plan: AuditPlan) -> Iterator[AuditCell]:
    victim = plan.imprint_target
    batch = victim.batch_size or plan.training.batch_size
    steps = plan.training.epochs * -(-len(victim.train) // batch)
    for part in (CraftedModel, Guard):
        yield part(NO_DEFENCE, _content(plan, NO_DEFENCE), victim.name, steps)


def _first(plan: AuditPlan, label: str) -> Iterator[AuditCell]:
    """One cell of each kind."""
    audit, content = plan.audit, _content(plan, label)
    if "curious-server" in audit.threats:
        if "metrics" in audit.inference:
            yield ClientMetrics(label, content)
        if not _encrypted(plan, label):
            last, clients = plan.attacked_rounds[0], plan.audited_clients
            yield from _reconstructions(plan, label, clients[0].name, last)
            yield from _inferences(plan, label, last)
            yield from _memberships(plan, label, last, simulated=False)
    if "curious-client" in audit.threats and not _encrypted(plan, label):
        yield _game(plan, label)


def _further(plan: AuditPlan, label: str) -> Iterator[AuditCell]:
    """The other clients and rounds."""
    if "curious-server" not in plan.audit.threats or _encrypted(plan, label):
        return
    last, *earlier = plan.attacked_rounds
    smallest, *others = (split.name for split in plan.audited_clients)
    yield from _memberships(plan, label, last, simulated=True)
    for number in earlier:
        yield from _inferences(plan, label, number)
        yield from _memberships(plan, label, number, simulated=False)
    for client, number in [
        *((smallest, number) for number in earlier),
        *((client, number) for client in others for number in plan.attacked_rounds),
    ]:
        yield from _reconstructions(plan, label, client, number)
    for number in earlier:
        yield from _memberships(plan, label, number, simulated=True)


def _reconstructions(plan: AuditPlan, label: str, client: str, number: int) -> Iterator[AuditCell]:
    for attack in plan.audit.attacks:
        audit = plan.audit
        yield Reconstruction(label, _content(plan, label), attack, client, number, audit.victims, audit.rehearse)


def _inferences(plan: AuditPlan, label: str, number: int) -> Iterator[AuditCell]:
    content, clients = _content(plan, label), _names(plan)
    if "label-counts" in plan.audit.inference:
        audit = plan.audit
        yield LabelCounts(label, content, clients, number, stand_ins=audit.victims, simulations=audit.simulations)
    if "source" in plan.audit.inference and len(clients) > 1:
        yield Source(label, content, clients, number)


def _memberships(plan: AuditPlan, label: str, number: int, simulated: bool) -> Iterator[AuditCell]:
    if "membership" not in plan.audit.inference:
        return
    for name in plan.audit.membership:
        if (name != "loss") is simulated:
            yield Membership(label, _content(plan, label), _names(plan), number, name, plan.audit.shadows)


def _names(plan: AuditPlan) -> tuple[str, ...]:
    return tuple(split.name for split in plan.audited_clients)


def _content(plan: AuditPlan, label: str) -> str:
    return plan.federation(label).model_dump_json()


def _encrypted(plan: AuditPlan, label: str) -> bool:
    return load_task(plan.federation(label)).defence.encryption is not None


def _game(plan: AuditPlan, label: str) -> Participation:
    target = plan.inference_target.name
    others = [split for split in plan.task.clients if split.name != target]
    if len(others) < 2:
        raise Misconfigured(
            f"the curious client needs two clients beside its target, and there are {len(others) + 1} in all: leave "
            "curious-client out of audit.threats."
        )
    attacker = max(others, key=lambda split: len(split.train)).name
    audit = plan.audit
    content = plan.game(label, attacker).model_dump_json()
    return Participation(label, content, attacker, target, audit.games, audit.shadow)
