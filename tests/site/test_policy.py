"""A site's policy: what the file says, and what it answers."""

import math
import random
import tomllib

import pytest

from fluoroscope.defences.guard import Reason, Verdict
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.site.decision import Decision
from fluoroscope.site.policy import Policy, read_policy, template
from fluoroscope.site.policy_words import gaps_in_words, rules_in_words
from fluoroscope.site.reading import LEAKS, Metered, Reading, not_judged
from fluoroscope.site.reasons import known
from fluoroscope.site.subject import Subject


def metered(reconstruction: float | None = 0.0, label_counts: float | None = 0.0) -> Metered:
    values = {"reconstruction": reconstruction, "label-counts": label_counts}
    return Metered(tuple(Reading(leak, values[leak], "words", "span", 0.5) for leak in LEAKS))


def policy(text: str, tmp_path) -> Policy:
    (tmp_path / "appetite.toml").write_text(text)
    return read_policy(tmp_path / "appetite.toml")


def verdict(refused: bool = False, ran: bool = True) -> Verdict:
    reasons = [Reason("staircase", "0.weight", "refuse", "units in a row")] if refused else []
    return Verdict((*reasons, Reason("firing", "1", "note", "dead")), "0" * 64, 0.1, ran)


def test_what_is_below_the_limits_is_sent():
    assert Policy().decide(metered(), None) == Decision("send")


@pytest.mark.parametrize(
    ("value", "answer"),
    [(0.0, "send"), (0.01, "send"), (0.016, "warn"), (0.02, "warn"), (0.0201, "withhold"), (math.inf, "withhold")],
)
def test_a_limit_is_the_most_that_passes(value, answer):
    assert Policy().decide(metered(reconstruction=value), None).answer == answer


def test_a_limit_of_nothing_lets_nothing_pass_but_nothing(tmp_path):
    none = policy("[limits]\nreconstruction = 0", tmp_path)
    assert none.decide(metered(0.0), None).answer == "send"
    assert none.decide(metered(1e-9), None).answer == "withhold"


@pytest.mark.parametrize(
    "unjudged",
    [not_judged("why"), metered(None), metered(math.nan), Metered(()), Metered(metered().readings[:1])],
    ids=["all", "one", "nan", "no reading", "a leak without a reading"],
)
def test_what_is_not_judged_is_withheld_by_default(unjudged, tmp_path):
    assert Policy().decide(unjudged, None).answer == "withhold"
    assert policy('when_not_judged = "warn"', tmp_path).decide(unjudged, None).answer == "warn"
    sent = policy('when_not_judged = "send"', tmp_path).decide(unjudged, None)
    assert sent.answer == "send"
    assert sent.reasons, "it stands in the ledger all the same"


def test_a_leak_can_be_treated_otherwise(tmp_path):
    lenient = policy('[override.label-counts]\nabove_limit = "warn"\nwhen_not_judged = "send"', tmp_path)
    assert lenient.decide(metered(0.0, 0.9), None).answer == "warn"
    assert lenient.decide(metered(0.0, None), None).answer == "send"
    assert lenient.decide(metered(0.9, 0.0), None).answer == "withhold"
    assert lenient.decide(metered(None, 0.0), None).answer == "withhold"


@pytest.mark.parametrize(
    ("epsilon", "answer"), [(None, "withhold"), (math.nan, "withhold"), (5.0, "send"), (7.0, "warn"), (8.1, "withhold")]
)
def test_a_budget_asks_for_a_claim(epsilon, answer, tmp_path):
    assert policy("[privacy]\nepsilon = 8", tmp_path).decide(metered(), epsilon).answer == answer
    assert Policy().decide(metered(), epsilon).answer == "send", "no budget asks for nothing"


def test_models_are_admitted_when_they_were_run_and_not_refused(tmp_path):
    assert Policy().admits(verdict()) == Decision("send")
    assert Policy().admits(verdict(refused=True)) == Decision("withhold", ("The guard refused this model: staircase.",))
    assert Policy().admits(verdict(ran=False)).answer == "withhold"
    warns = policy('[guard]\nwhen_not_judged = "warn"', tmp_path)
    assert warns.admits(verdict(ran=False)).answer == "warn"
    assert warns.admits(verdict(refused=True, ran=False)).answer == "withhold"


def test_more_leak_is_never_answered_more_kindly():
    """A property, over random policies and readings: raising a value or losing a judgement never helps."""
    draw, order = random.Random(0), ["send", "warn", "withhold"]
    for _ in range(500):
        one = Policy.model_validate({"limits": {"reconstruction": draw.random(), "warn_at": draw.uniform(0.1, 1)}})
        low, high = sorted((draw.random(), draw.random()))
        answers = [one.decide(metered(value), None).answer for value in (low, high, None)]
        assert [order.index(a) for a in answers] == sorted(order.index(a) for a in answers)


def test_every_reason_is_one_that_the_ledger_takes(tmp_path):
    strict = policy("[privacy]\nepsilon = 1", tmp_path)
    for reading in (metered(0.3, 0.45), not_judged("anna's image at /data/anna.png")):
        for epsilon in (None, 0.9, 2.0):
            decision = strict.decide(reading, epsilon)
            assert decision.reasons
            assert all(known(reason) for reason in decision.reasons)
            assert not any("anna" in reason for reason in decision.reasons)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('when_not_juged = "send"', "no key 'when_not_juged'; did you mean 'when_not_judged'"),
        ("[limits]\nlabel_counts = 1", "no key 'limits.label_counts'; did you mean 'label-counts'"),
        ("[limits]\nmembership = 1", "no key 'limits.membership'. Known here: reconstruction, label-counts, warn_at"),
        ("[override.label-counts]\nabov_limit = 'warn'", "did you mean 'above_limit'"),
        ("[training]\nlrr = 1", "no key 'training.lrr'; did you mean 'lr'"),
        ("[model]\nnme = 'lenet5'", "no key 'model.nme'; did you mean 'name'"),
        ('when_not_judged = "sned"', "when_not_judged: Input should be 'send', 'warn' or 'withhold', not 'sned'"),
        ("[limits]\nreconstruction = true", "limits.reconstruction"),
        ("[limits]\nreconstruction = '0.5'", "limits.reconstruction"),
        ("[limits]\nreconstruction = nan", "limits.reconstruction"),
        ("[limits]\nreconstruction = inf", "limits.reconstruction"),
        ("[privacy]\nepsilon = 0", "privacy.epsilon"),
        ("[site]\nclasses = ['a', 'a']", "names a class twice"),
    ],
)
def test_what_is_wrong_is_named(text, said, tmp_path):
    with pytest.raises(Misconfigured) as problem:
        policy(text, tmp_path)
    assert said in str(problem.value)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(BadInput, match="not valid TOML"):
        policy("[limits", tmp_path)
    with pytest.raises(BadInput, match="cannot read the policy"):
        read_policy(tmp_path / "nothing.toml")


def test_paths_are_relative_to_the_file(tmp_path):
    found = policy("[site]\nimages = 'folder:own'\npublic = 'phantom/chest'\nledger = 'l.jsonl'", tmp_path).site
    assert found.images == f"folder:{tmp_path / 'own'}"
    assert found.public == "phantom/chest"
    assert found.ledger == str(tmp_path / "l.jsonl")


def test_the_template_is_the_default_policy(tmp_path):
    assert Policy.model_validate(tomllib.loads(template())) == Policy()


def test_what_stands_behind_the_comments_of_the_template_is_valid(tmp_path):
    lines = [line.removeprefix("# ") for line in template().splitlines()]
    settings = [line for line in lines if line.partition("#")[0].strip().startswith("[") or " = " in line]
    found = policy("\n".join(line for line in settings if not line.startswith("Answers")), tmp_path)
    assert found.privacy.epsilon == 8
    assert found.defence[0].name == "clip-and-noise"
    assert found.override.label_counts.above_limit == "warn"


def test_the_words_follow_the_policy(tmp_path):
    said = " ".join(rules_in_words(policy('[override.reconstruction]\nabove_limit = "warn"', tmp_path)))
    assert "by more than 0.02 passes with a warning" in said
    assert "where that cannot be judged, it is withheld" in said
    assert "every update is withheld" in " ".join(gaps_in_words(Policy(), Subject()))
