"""Weights in NVFlare's messages. A payload of any other kind is refused: what is not understood does not pass.

NVFlare's own `DXOFilter` hands on what is no DXO, and what has an error code, without looking at it.
"""

from typing import Any

from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply
from nvflare.app_common.app_constant import AppConstants

from fluoroscope.errors import Refused
from fluoroscope.integrations.plain_values import check_plain
from fluoroscope.integrations.weights import Weights

_CONTENT = "DXO"
"""The key under which a Shareable carries its DXO."""
_HOLDING: dict[str, bool] = {DataKind.WEIGHTS: False, DataKind.WEIGHT_DIFF: True}
"""The kinds that are understood, and whether they are differences."""


def failed(result: Shareable) -> bool:
    """Whether a task ended with an error: then there is no update."""
    return bool(_message(result).get_return_code() != ReturnCode.OK)


def bare(result: Shareable) -> Shareable:
    """The error code alone: whatever lies beside it stays here."""
    code = result.get_return_code()
    known = {value for name, value in vars(ReturnCode).items() if name.isupper()}
    return make_reply(code if code in known else ReturnCode.EXECUTION_EXCEPTION)


def incoming(task: Shareable) -> Weights:
    """The model of a task.

    Raises:
        Refused: it holds none that can be looked at.
    """
    found = _weights(_dxo(task))
    if found.difference:
        raise Refused("the server sent differences to a model that the site was not shown")
    return found


def outgoing(result: Shareable) -> Weights:
    """The weights of a result, with nothing but plain numbers beside them.

    Raises:
        Refused: it holds something else.
    """
    dxo = _dxo(result)
    found = _weights(dxo)
    _check_beside(result, dxo)
    return found


def metrics(result: Shareable) -> Shareable | None:
    """The same result with nothing but its metrics, where it carries no other payload; None where it does.

    Raises:
        Refused: more than a few plain numbers are among them or beside them.
    """
    dxo = _dxo(result)
    if dxo.data_kind != DataKind.METRICS:
        return None
    check_plain(dxo.data, "metrics")
    _check_beside(result, dxo)
    return result


def holding(result: Shareable, arrays: dict[str, Any]) -> Shareable:
    """The same result with these arrays in the place of its own."""
    dxo = _dxo(result)
    made = Shareable()
    for key, value in result[ReservedHeaderKey.HEADERS].items():
        made.set_header(key, value)
    return DXO(dxo.data_kind, arrays, dict(dxo.meta)).update_shareable(made)


def round_of(message: object) -> int:
    """The round by the server's count, which starts at 0; 0 where it says none."""
    try:
        told = _message(message).get_header(AppConstants.CURRENT_ROUND)
    except Refused:
        return 0
    return told if isinstance(told, int) and told >= 0 else 0


def _message(message: object) -> Shareable:
    if not isinstance(message, Shareable) or not isinstance(message.get(ReservedHeaderKey.HEADERS), dict):
        raise Refused(f"it is a {type(message).__name__}, not a Shareable with headers")
    return message


def _check_beside(result: Shareable, dxo: DXO) -> None:
    check_plain(dxo.meta, "metadata")
    check_plain(result[ReservedHeaderKey.HEADERS], "headers")
    if result.keys() - {ReservedHeaderKey.HEADERS, _CONTENT}:
        raise Refused("it carries something beside the weights")


def _dxo(message: object) -> DXO:
    try:
        return from_shareable(_message(message))
    except Refused:
        raise
    except Exception:  # whatever a job put there
        pass
    raise Refused("it carries no DXO (data exchange object) with weights")


def _weights(dxo: DXO) -> Weights:
    kind = dxo.data_kind
    if not isinstance(kind, str) or kind not in _HOLDING:
        known = isinstance(kind, str) and kind in {each.value for each in DataKind}
        raise Refused(f"it carries {kind if known else 'something'}, and only WEIGHTS and WEIGHT_DIFF can be judged")
    if dxo.get_meta_prop(MetaKey.PROCESSED_ALGORITHM) is not None:
        raise Refused("its weights are compressed, quantised or encrypted, and cannot be looked at")
    return Weights(dxo.data, _HOLDING[kind])
