"""The sentences of decisions, made of numbers and short names: none can hold an image, a patient or a path.

The ledger takes no others: `known` tells them by their form.
"""

import logging
import re

_LOG = logging.getLogger(__name__)
_NUMBER = r"-?\d[\d.e+-]*"
_NAME = r"[A-Za-z0-9][A-Za-z0-9 _-]{0,39}"
_NAMES = rf"{_NAME}(?:, {_NAME})*"

_FORMS = {
    "above_limit": "{leak}: {value} is above the limit of {limit}.",
    "near_limit": "{leak}: {value} is near the limit of {limit}.",
    "not_judged": "{leak} could not be judged.",
    "epsilon_unknown": "An epsilon of at most {limit} is asked for, and no defence of this site gives one.",
    "epsilon_spent": "Epsilon would be {value} after this, above the limit of {limit}.",
    "epsilon_near": "Epsilon is {value} after this, near the limit of {limit}.",
    "guard_refused": "The guard refused this model: {checks}.",
    "guard_by_weights": "The guard could judge this model by its weights alone.",
    "failed": "The {part} stopped with {error}, so nothing may pass.",
    "unreadable": "What came to the door could not be read ({error}), so nothing may pass.",
    "not_finite": "The update has numbers that are not finite, so nothing may pass.",
    "ledger_failed": "The ledger could not be written ({error}), so nothing may pass.",
    "another_copy": "This update was decided before, and what would leave now is not the same copy.",
}
_SLOTS = {"value": _NUMBER, "limit": _NUMBER, "leak": _NAME, "part": _NAME, "error": _NAME, "checks": _NAMES}
_PATTERNS = [
    re.compile(re.sub(r"\\\{(\w+)\\\}", lambda slot: _SLOTS[slot[1]], re.escape(form))) for form in _FORMS.values()
]
_NOT_OURS = "unnamed"


def sentence(form: str, **slots: float | str) -> str:
    """The sentence of this form; a text that is no short name is left out of it.

    Example:
        >>> sentence("above_limit", leak="reconstruction", value=0.3, limit=0.02)
        'reconstruction: 0.3 is above the limit of 0.02.'
    """
    return _FORMS[form].format(**{name: _filled(name, value) for name, value in slots.items()})


def failure(form: str, problem: Exception, **slots: str) -> str:
    """The sentence about an exception: its kind alone, since its message may hold anything. That is for the log."""
    _LOG.debug("at the site's door: %s", form, exc_info=problem)
    return sentence(form, error=type(problem).__name__, **slots)


def known(text: str) -> bool:
    """Whether this is one of the sentences that are made here.

    Example:
        >>> known("reconstruction could not be judged."), known("/data/anna.png could not be judged.")
        (True, False)
    """
    return any(pattern.fullmatch(text) for pattern in _PATTERNS)


def _filled(name: str, value: float | str) -> str:
    said = value if isinstance(value, str) else f"{value:.3g}"
    return said if re.fullmatch(_SLOTS[name], said) else _NOT_OURS
