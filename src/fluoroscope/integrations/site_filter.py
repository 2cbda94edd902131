"""What the filters of NVFlare and MONAI share: the site's door, opened once, and a sentence for whatever went wrong."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from fluoroscope.defences.guard.digest import digest
from fluoroscope.errors import FluoroscopeError, Misconfigured, Refused
from fluoroscope.rng import secret_generator
from fluoroscope.types import State, UpdateRecord

if TYPE_CHECKING:
    from fluoroscope.site.control import SiteControl
    from fluoroscope.site.decision import Decision
    from fluoroscope.site.entry import Direction


class Withheld(Refused):
    """The policy's own answer, which the ledger has."""


@cache
def opened(policy: str, ledger: str | None = None) -> "SiteControl":
    """The door that a policy describes; filters of one process that name the same one share it.

    Raises:
        Refused: it cannot be opened. Why is for the site alone: a filter's words may be sent on with a log.
    """
    from fluoroscope.site.opening import open_site  # loads torch, and the networks

    try:
        return open_site(Path(policy), None if ledger is None else Path(ledger))
    except (FluoroscopeError, OSError):
        pass
    raise Refused("the site's policy cannot be opened: `fluoroscope policy check` says why on the site's own machine")


def check_path(policy: object, what: str = "policy") -> str:
    """A path as an argument in JSON.

    Raises:
        Misconfigured: it is no text.
    """
    if not isinstance(policy, str) or not policy:
        raise Misconfigured(f"{what} is the path of a file or folder as text, not {policy!r}.")
    return policy


def sentence(problem: Exception) -> str:
    """What may be said of a problem where a server may read it: our own words, never a path or a value."""
    if isinstance(problem, Refused):
        return str(problem)
    return f"an unexpected {type(problem).__name__} came up while it was looked at"


def check_passes(decision: "Decision") -> None:
    """Go on only with what the site's policy lets pass.

    Raises:
        Withheld: it does not; with the policy's reasons.
    """
    if not decision.passes:
        raise Withheld(" ".join(decision.reasons).rstrip(".") or "the site's policy withholds it")


def enter(problem: Exception, policy: str, ledger: str | None, direction: "Direction", *, run: str, round: int) -> None:
    """Have what stopped a message stand in the ledger, where it is not the policy's own answer.

    Args:
        problem: what came up; its kind alone is written down.
        policy: path of the site's policy.
        ledger: path of the ledger; None where the policy says it.
        direction: which way the message went.
        run: the federation's own name or number.
        round: the round's number.
    """
    if isinstance(problem, Withheld):
        return
    try:
        control = opened(policy, ledger)
    except Refused:
        return  # without a policy there is no ledger: the log alone says so
    control.unreadable(direction, problem, run=run, round=round)


def defended(control: "SiteControl", before: State, after: State, *, run: str, round: int) -> dict[str, Tensor]:
    """What is left of an update when the site's own defence is through with it.

    Raises:
        Refused: the policy names no defence, or does not say what is trained and how.
    """
    from fluoroscope.site.entry import exchange_id
    from fluoroscope.site.noise_key import noise_key

    subject = control.subject
    if not subject.defence.parts:
        raise Refused("the site's policy names no [[defence]]")
    if subject.network is None or subject.training is None:
        raise Refused("the site's policy does not say in [model] and [training] what is trained, and how")
    record = UpdateRecord.between(subject.network, before, after, subject.training, round=round)
    # The same update twice gets the same noise: the mean of two copies would have less of it.
    key = noise_key(control.ledger.path, exchange_id(run, round, "out", digest(before), digest(after)))
    left = subject.defence.send(record, secret_generator(key))
    return {**left.state_after, **(left.buffers_after or {})}
