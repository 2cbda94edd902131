"""A module's copy, also of one that has run: it may keep what it made, and torch copies no tensor that has a graph."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Tensor, enable_grad, nn
from torch.overrides import TorchFunctionMode

M = TypeVar("M", bound=nn.Module)


class _Copying(TorchFunctionMode):
    """Tensors are asked for their copies wherever they are kept: as attributes, in lists, or in other objects."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  # as torch has it
        if func is Tensor.__deepcopy__ and (not args[0].is_leaf or args[0]._base is not None):
            return _copy(*args)
        return func(*args, **(kwargs or {}))


def _copy(value: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(value) not in memo:
        base = value._base
        if base is None or not base.is_leaf:
            memo[id(value)] = value.detach().clone()
        else:  # a view of a weight follows the copy's weight: with numbers of its own it would hide what is loaded
            with enable_grad():  # torch forbids to use one that was made without, once its weight is written to
                whole = copy.deepcopy(base, memo)
                start = whole.storage_offset() + value.storage_offset() - base.storage_offset()
                memo[id(value)] = whole.as_strided(value.shape, value.stride(), start)
    made: Tensor = memo[id(value)]
    return made


def copied(module: M) -> M:
    """The same module with arrays of its own; what `weight_norm` and the like make of them is made anew as it runs."""
    with _Copying():
        return copy.deepcopy(module)
