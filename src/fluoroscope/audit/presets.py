"""Plans to start from: a preset's text, with what a user says of the own set-up put in."""

import json
import re
import tomllib
from importlib.resources import files

from fluoroscope.audit.plan import AuditPlan
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.plan import parse_plan_as

PRESETS = {
    "quick": "three attackers on a small federation, in minutes",
    "p1": "a curious server and hospitals of different size",
    "p2": "a malicious server against secure aggregation",
    "p3": "a curious hospital, and privacy at the server",
}

EQUAL = """\
[partition]
name = "iid"                 # equal shares; dirichlet for unequal ones, counts for your own numbers
clients = {clients}
auxiliary = 0.1              # of all images: the attackers' prior

"""


def preset(name: str) -> str:
    """The text of a preset, with its comments."""
    if name not in PRESETS:
        raise Misconfigured(f"there is no preset {name!r}. Known: {', '.join(PRESETS)}.")
    return files("fluoroscope").joinpath(f"plans/{name}.toml").read_text(encoding="utf-8")


def preset_plan(name: str) -> AuditPlan:
    """The same, parsed."""
    return parse_plan_as(AuditPlan, tomllib.loads(preset(name)), name)


def customised(
    name: str,
    source: str | None = None,
    clients: int | None = None,
    model: str | None = None,
    budget: float | None = None,
    seed: int | None = None,
) -> str:
    """A preset on other images, other hospitals, another network, budget or seed."""
    text = preset(name)
    if source is not None:
        text = with_value(text, "source", quoted(source), "")
        text = without(text, "images")
    if clients is not None:
        text = partitioned(text, EQUAL.format(clients=clients))
    if model is not None:
        text = re.sub(r'(?m)^(\[model\]\nname = )"[^"]*"', rf'\g<1>"{model}"', text)
    if budget is not None:
        text = with_value(text, "budget_minutes", f"{budget:g}")
    return text if seed is None else with_value(text, "seed", str(seed))


def partitioned(text: str, partition: str) -> str:
    """A plan's text with another partition, and without the clients of the preset's own that the audit names."""
    text = re.sub(r"(?ms)^\[partition\]\n.*?(?=^\[)", lambda _: partition, text)
    text = re.sub(r"(?m)^clients = \[.*\n", "", text)
    return without(text, "target")


def quoted(text: str) -> str:
    """As a TOML string; JSON's is one, too."""
    return json.dumps(text, ensure_ascii=False)


def with_value(text: str, key: str, value: str, comment: str | None = None) -> str:
    """The first line of the key with another value; its comment stays, unless there is another, or an empty one."""

    def line(found: re.Match[str]) -> str:
        now = f"{found[1]}{value}"
        return f"{now:<28} # {comment}" if comment else now + (found[2] or "" if comment is None else "")

    return re.sub(rf"(?m)^({key} = )[^#\n]*?(\s*#.*)?$", line, text, count=1)


def without(text: str, key: str) -> str:
    """A plan's text without the first line of the key."""
    return re.sub(rf"(?m)^{key} = .*\n", "", text, count=1)
