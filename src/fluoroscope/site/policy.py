"""A site's appetite for risk, written down: one TOML file, `appetite.toml`, and what it answers.

What cannot be judged is withheld unless the file says otherwise.
"""

import math
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, field_validator

from fluoroscope.defences.accounting import DELTA
from fluoroscope.defences.guard import Verdict
from fluoroscope.federation.data_plan import rooted_source
from fluoroscope.federation.plan import DefencePlan, ModelPlan, rooted_defence, rooted_model
from fluoroscope.federation.sections import Section, parse_as, read_toml
from fluoroscope.federation.training_plan import TrainingPlan
from fluoroscope.site.decision import Answer, Decision
from fluoroscope.site.reading import LEAKS, Leak, Metered, Reading
from fluoroscope.site.reasons import sentence


class StrictSection(Section):
    """A table in which `true` is no number and `"3"` is none either."""

    model_config = ConfigDict(strict=True)


class Limits(StrictSection):
    """The most that an update may give away, one key per leak of the meter."""

    reconstruction: float = Field(default=0.02, ge=0)
    """RDLV that a reconstruction gains on its own patient over others: the gate's usual limit for an audit."""
    label_counts: float = Field(default=0.5, ge=0, alias="label-counts")
    """How much nearer than public shares a guess of the classes' counts comes: 0 not at all, 1 exactly.

    One half, since the last layer of nearly every undefended update of few images tells more than that.
    """
    warn_at: float = Field(default=0.8, gt=0, le=1)
    """The share of a limit from which on a warning is given."""

    def of(self, leak: Leak) -> float:
        return self.reconstruction if leak == "reconstruction" else self.label_counts


class Override(StrictSection):
    """What to do about one leak, where that is not what is done about the others."""

    above_limit: Answer = "withhold"
    when_not_judged: Answer | None = None
    """None: as the whole policy says."""


class Overrides(StrictSection):
    """One table per leak."""

    reconstruction: Override = Override()
    label_counts: Override = Field(default=Override(), alias="label-counts")

    def of(self, leak: Leak) -> Override:
        return self.reconstruction if leak == "reconstruction" else self.label_counts


class PrivacyBudget(StrictSection):
    """What a defence of the site has to promise."""

    epsilon: float | None = Field(default=None, gt=0)
    """The most that all releases in the ledger may spend together; None asks for nothing."""
    delta: float = Field(default=DELTA, gt=0, lt=1)


class GuardRule(StrictSection):
    """What to do about a model that comes in."""

    when_refused: Answer = "withhold"
    when_not_judged: Answer = "withhold"
    """It was judged by its weights alone: no image went through it."""


class SiteTable(StrictSection):
    """Where the site's own things are; paths are relative to the file."""

    images: str | None = Field(default=None, min_length=1)
    """The images that are trained on here, as `data show` takes them."""
    size: int | None = Field(default=None, ge=1)
    channels: Literal[1, 3] | None = None
    transposed: bool = False
    """Whether the application swaps rows and columns, as MONAI's readers do by default; of public images too."""
    classes: list[str] | None = Field(default=None, min_length=2)
    """The federation's classes in its order, where this site may lack one; None takes those of the images."""
    public: str | None = Field(default=None, min_length=1)
    """Public images of the same kind and classes: what an attacker would learn from."""
    ledger: str = Field(default="ledger.jsonl", min_length=1)
    seconds: float = Field(default=10.0, gt=0)
    """That the meter may take for one update."""
    kept: str | None = Field(default=None, min_length=1)
    """A folder for what the meter learned; None keeps nothing."""

    @field_validator("classes")
    @classmethod
    def _differ(cls, classes: list[str] | None) -> list[str] | None:
        if classes is not None and len(set(classes)) < len(classes):
            raise ValueError("site.classes names a class twice")
        return classes

    def rooted(self, folder: Path) -> "SiteTable":
        """The same with absolute paths."""

        def source(said: str | None) -> str | None:
            return None if said is None else rooted_source(said, folder)

        kept = None if self.kept is None else str((folder / self.kept).resolve())
        places = {"images": source(self.images), "public": source(self.public), "kept": kept}
        return self.model_copy(update={**places, "ledger": str((folder / self.ledger).resolve())})


class Policy(Section):
    """What a site lets pass.

    Example:
        >>> from fluoroscope.site.reading import Metered, Reading
        >>> read = [Reading("reconstruction", 0.3, "read"), Reading("label-counts", 0.0, "not read")]
        >>> Policy().decide(Metered(tuple(read)), epsilon=None)
        Decision(answer='withhold', reasons=('reconstruction: 0.3 is above the limit of 0.02.',))
    """

    when_not_judged: Answer = "withhold"
    limits: Limits = Limits()
    override: Overrides = Overrides()
    privacy: PrivacyBudget = PrivacyBudget()
    guard: GuardRule = GuardRule()
    site: SiteTable = SiteTable()
    model: ModelPlan | None = None
    """The network that the federation agreed on."""
    training: TrainingPlan | None = None
    """How the application trains here."""
    defence: tuple[DefencePlan, ...] = ()
    """What the site itself does to an update before it leaves."""

    def decide(self, metered: Metered, epsilon: float | None) -> Decision:
        """Whether an update may leave.

        Args:
            metered: what the meter read; a leak without a reading was not judged.
            epsilon: spent after this release; None where no defence claims one.
        """
        read = {reading.leak for reading in metered.readings}
        parts = [self._of(reading) for reading in metered.readings]
        parts += [self._not_judged(leak) for leak in LEAKS if leak not in read]
        return Decision.strictest([*parts, self._of_epsilon(epsilon)])

    def admits(self, verdict: Verdict) -> Decision:
        """Whether a model may be trained here."""
        parts = []
        if verdict.refused:
            checks = dict.fromkeys(reason.check for reason in verdict.reasons if reason.severity == "refuse")
            parts.append(_unless_sent(self.guard.when_refused, sentence("guard_refused", checks=", ".join(checks))))
        if not verdict.ran:
            parts.append(_unless_sent(self.guard.when_not_judged, sentence("guard_by_weights")))
        return Decision.strictest(parts)

    def unjudged(self, leak: Leak) -> Answer:
        """What is done about a leak that could not be judged."""
        return self.override.of(leak).when_not_judged or self.when_not_judged

    def _of(self, reading: Reading) -> Decision:
        if reading.value is None or math.isnan(reading.value):
            return self._not_judged(reading.leak)
        limit = self.limits.of(reading.leak)
        said = {"leak": reading.leak, "value": reading.value, "limit": limit}
        if reading.value > limit:
            return _unless_sent(self.override.of(reading.leak).above_limit, sentence("above_limit", **said))
        if reading.value > 0 and reading.value >= self.limits.warn_at * limit:
            return Decision("warn", (sentence("near_limit", **said),))
        return Decision("send")

    def _not_judged(self, leak: Leak) -> Decision:
        return _unless_sent(self.unjudged(leak), sentence("not_judged", leak=leak))

    def _of_epsilon(self, epsilon: float | None) -> Decision:
        budget = self.privacy.epsilon
        if budget is None:
            return Decision("send")
        if epsilon is None or math.isnan(epsilon):
            return Decision("withhold", (sentence("epsilon_unknown", limit=budget),))
        if epsilon > budget:
            return Decision("withhold", (sentence("epsilon_spent", value=epsilon, limit=budget),))
        if epsilon >= self.limits.warn_at * budget:
            return Decision("warn", (sentence("epsilon_near", value=epsilon, limit=budget),))
        return Decision("send")


def _unless_sent(answer: Answer, why: str) -> Decision:
    """With its reason, which stands in the ledger also where the policy does not mind."""
    return Decision(answer, (why,))


def read_policy(path: Path) -> Policy:
    """The policy in a TOML file; paths in it are relative to the file.

    Raises:
        BadInput: the file cannot be read.
        Misconfigured: a key or a value is wrong; it is named, with the nearest key that there is.
    """
    policy, folder = parse_as(Policy, read_toml(path, "policy"), str(path)), path.parent
    return policy.model_copy(
        update={
            "site": policy.site.rooted(folder),
            "model": None if policy.model is None else rooted_model(policy.model, folder),
            "defence": tuple(rooted_defence(part, folder) for part in policy.defence),
        }
    )


def template() -> str:
    """A policy to start from, with comments."""
    return files("fluoroscope").joinpath("site/appetite.toml").read_text(encoding="utf-8")
