"""A site's own `local/privacy.json`: filters that every job of that NVFlare site runs through, whoever wrote it.

Needs no NVFlare: the file is written where the site is set up.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from fluoroscope import strict_json
from fluoroscope.atomic_write import write_text
from fluoroscope.errors import BadInput, Misconfigured

SCOPE = "fluoroscope"
"""The scope that is made where the site has none."""
_PACKAGE = "fluoroscope.integrations.nvflare"
_OURS = (f"{_PACKAGE}.Guard", f"{_PACKAGE}.Meter")
_DATA, _RESULT = "task_data_filters", "task_result_filters"


def privacy_file(workspace: Path) -> Path:
    """Where a client's workspace has its privacy.json.

    Raises:
        BadInput: this is no client's workspace.
    """
    if (workspace / "startup" / "fed_server.json").exists():
        raise BadInput(
            f"{workspace} is the workspace of a server: the filters stand at a client, before anything leaves."
        )
    if not (workspace / "local").is_dir():
        raise BadInput(f"{workspace} has no folder local/: give the folder of a site, which holds startup/ and local/.")
    return workspace / "local" / "privacy.json"


def read_privacy(path: Path) -> dict[str, Any]:
    """What stands in the file; empty where there is none.

    Raises:
        BadInput: it is not NVFlare's format.
    """
    try:
        content = strict_json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise BadInput(f"{path} cannot be read as JSON: {problem}.") from problem
    if not isinstance(content, dict):
        raise BadInput(f"{path} holds no JSON object: NVFlare's has the keys scopes and default_scope.")
    scopes = content.get("scopes", [])
    if not isinstance(scopes, list) or not all(isinstance(s, dict) and isinstance(s.get("name"), str) for s in scopes):
        raise BadInput(f"{path}: scopes has to be a list of objects that each have a name.")
    for scope in scopes:
        for chain in (_DATA, _RESULT):
            filters = scope.get(chain, [])
            if not isinstance(filters, list) or not all(isinstance(each, dict) for each in filters):
                raise BadInput(f"{path}: {chain} of the scope {scope['name']!r} has to be a list of objects.")
    return content


def with_filters(content: Mapping[str, Any], arguments: Mapping[str, str], scope: str | None = None) -> dict[str, Any]:
    """The same file with our filters in it, and everybody else's as they were.

    The guard is the first of the task data: it sees what the server sent. The meter is the last of the results: it sees
    what the site's other filters leave. It stands on task data that goes out as well, since jobs that clients control
    (swarm, cyclic) send their models to other sites that way.

    Args:
        content: of the file as it is.
        arguments: of the filters: `policy`, and `ledger` where it is not the policy's.
        scope: the one to guard; by default all of them, since a job chooses among them.
    """
    made = deepcopy(dict(content))
    scopes = made.setdefault("scopes", [])
    if not scopes or (scope is not None and scope not in [each["name"] for each in scopes]):
        scopes.append({"name": scope or SCOPE, "properties": {}})
        made.setdefault("default_scope", scope or SCOPE)
    guard, meter = ({"path": path, "args": dict(arguments)} for path in _OURS)
    for each in scopes:
        if scope in (None, each["name"]):
            each[_DATA] = [{**guard, "direction": "in"}, *_others(each, _DATA), {**meter, "direction": "out"}]
            each[_RESULT] = [*_others(each, _RESULT), {**meter, "direction": "out"}]
    return made


def open_scopes(content: Mapping[str, Any]) -> list[str]:
    """The scopes that a job could choose to get past the filters."""
    return [each["name"] for each in content.get("scopes", []) if not _guarded(each)]


def policies(content: Mapping[str, Any]) -> list[str]:
    """The policies that the filters in the file name, each once."""
    filters = [each for scope in content.get("scopes", []) for c in (_DATA, _RESULT) for each in scope.get(c, [])]
    named = [each.get("args", {}).get("policy") for each in filters if each.get("path") in _OURS]
    return list(dict.fromkeys(str(each) for each in named))


def install(path: Path, arguments: Mapping[str, str], scope: str | None = None) -> Path | None:
    """Write our filters into the file; what was there before is kept beside it.

    Returns:
        The copy of the old file; None where there was none, or where nothing had to change.

    Raises:
        BadInput: the file is not NVFlare's format.
        Misconfigured: a path has a brace, which NVFlare takes for a variable.
    """
    for name, value in arguments.items():
        if "{" in value or "}" in value:
            raise Misconfigured(f"{name} {value!r} has a brace, which NVFlare takes for a variable: move the file.")
    now = read_privacy(path)
    then = with_filters(now, arguments, scope)
    if then == now:
        return None
    kept = None
    if path.exists():
        kept = _free(path)
        write_text(kept, path.read_text(encoding="utf-8"))
    write_text(path, json.dumps(then, indent=2) + "\n")
    return kept


def _others(scope: Mapping[str, Any], chain: str) -> list[dict[str, Any]]:
    return [each for each in scope.get(chain, []) if each.get("path") not in _OURS]


def _guarded(scope: Mapping[str, Any]) -> bool:
    """Whether the filters stand in all three places, at the client's end of them."""
    there = {
        (chain, each.get("path"), each.get("direction")) for chain in (_DATA, _RESULT) for each in scope.get(chain, [])
    }
    return {(_DATA, _OURS[0], "in"), (_DATA, _OURS[1], "out"), (_RESULT, _OURS[1], "out")} <= there


def _free(path: Path) -> Path:
    """A name beside it that nothing has yet."""
    number = 1
    while (kept := path.with_name(f"{path.name}.before-fluoroscope-{number}")).exists():
        number += 1
    return kept
