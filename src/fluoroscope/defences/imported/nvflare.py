"""A site's privacy.json, or a job's config_fed_client.json, as defences: NVFlare itself is not imported."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fluoroscope import strict_json
from fluoroscope.defences.contract import Defence
from fluoroscope.defences.hidden_layers import HiddenLayers
from fluoroscope.defences.percentile_privacy import PercentilePrivacy
from fluoroscope.defences.svt_privacy import SvtPrivacy
from fluoroscope.errors import BadInput, Misconfigured, Unsupported

_STATISTICS_ONLY = frozenset(
    {"AddNoiseToMinMax", "HistogramBinsCleanser", "MinCountCleanser", "StatisticsPrivacyFilter"}
)
"""Filters of federated statistics: they meet no update."""


def read_privacy_json(path: str | Path, scope: str | None = None) -> list[Defence]:
    """The filters on what leaves a client, in the order in which an update meets them.

    Args:
        path: NVFlare's `privacy.json` of a site, or the `config_fed_client.json` of a job.
        scope: of a privacy.json with several; its `default_scope` where this is left out.

    Raises:
        BadInput: the file cannot be read, or is neither.
        Misconfigured: there is no such scope, or a filter's setting is out of range.
        Unsupported: a filter is not known here, or acts on whole weights.

    Example:
        >>> import json, tempfile
        >>> filters = [{"name": "PercentilePrivacy", "args": {"gamma": 0.02}}]
        >>> with tempfile.NamedTemporaryFile("w+", suffix=".json") as file:
        ...     json.dump({"scopes": [{"name": "a", "task_result_filters": filters}], "default_scope": "a"}, file)
        ...     file.flush()
        ...     read_privacy_json(file.name)
        [PercentilePrivacy(percentile=10.0, gamma=0.02, steps=None)]
    """
    path = Path(path)
    try:
        content = strict_json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise BadInput(f"{path} cannot be read as JSON: {problem}.") from problem
    try:
        found = list(_filters(content, path, scope))
        return [defence for each in found for defence in _defence(each, path)]
    except (AttributeError, TypeError, ValueError, LookupError) as problem:
        raise BadInput(f"{path} is not laid out as NVFlare's files are: {problem}.") from problem


def _filters(content: Mapping[str, Any], path: Path, scope: str | None) -> Iterator[Mapping[str, Any]]:
    """What a client applies to results on their way out."""
    if "scopes" in content:
        scopes = {each.get("name"): each for each in content["scopes"]}
        name = content.get("default_scope") if scope is None else scope
        if name not in scopes:
            known = ", ".join(map(str, scopes)) or "none"
            raise Misconfigured(f"{path} has no scope {name!r}; it has: {known}.")
        entries = scopes[name].get("task_result_filters", [])
    elif "task_result_filters" in content:
        entries = [
            {"direction": group.get("direction"), **each}
            for group in content["task_result_filters"]
            for each in group.get("filters", [])
        ]
    else:
        raise BadInput(
            f"{path} has neither scopes nor task_result_filters: give a site's privacy.json or a job's "
            "config_fed_client.json."
        )
    for each in entries:
        if (each.get("direction") or "out").lower() != "in":  # a client's results go out; "inout" does too
            yield each


def _defence(entry: Mapping[str, Any], path: Path) -> list[Defence]:
    named = str(entry.get("path") or entry.get("class_path") or entry.get("name"))
    name, arguments = named.rpartition(".")[2], dict(entry.get("args") or {})
    if name in _STATISTICS_ONLY:
        return []
    if name not in _FILTERS:
        raise Unsupported(
            f"{path}: the filter {named} is not known here; known are {', '.join(_FILTERS)}. Take it out of a copy of "
            "the file to import the others, and write it as a defence of your own (docs/extending.md)."
        )
    kinds = arguments.pop("data_kinds", None)
    if kinds and "WEIGHT_DIFF" not in kinds:
        raise Unsupported(
            f"{path}: {name} with data_kinds = {kinds} acts on whole weights and not on their change, which a record's "
            "update is: add WEIGHT_DIFF, and let the clients send differences (params_transfer_type DIFF)."
        )
    make = _FILTERS[name]
    known = set(inspect.signature(make).parameters) - {"steps", "delta"}  # ours, not NVFlare's
    if unknown := sorted(set(arguments) - known):
        raise Misconfigured(f"{path}: {name} has no argument {unknown[0]!r}; it takes: {', '.join(sorted(known))}.")
    try:
        return [make(**arguments)]
    except TypeError as problem:
        raise Misconfigured(f"{path}: {name} cannot be made of {arguments}: {problem}.") from problem
    except Misconfigured as problem:
        raise Misconfigured(f"{path}: {name}: {problem}") from problem


def _exclude_vars(exclude_vars: list[str] | str | None = None) -> Defence:
    if not isinstance(exclude_vars, list):
        raise Misconfigured(f"exclude_vars must be a list of names to be read here, not {exclude_vars!r}.")
    return HiddenLayers(tuple(exclude_vars))


_FILTERS: dict[str, Callable[..., Defence]] = {
    "PercentilePrivacy": PercentilePrivacy,
    "SVTPrivacy": SvtPrivacy,
    "ExcludeVars": _exclude_vars,
}
