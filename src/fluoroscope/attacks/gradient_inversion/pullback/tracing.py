"""From a module to a list of steps with rules: traced for one shape of batch, so that Python may do as it likes."""

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, functionalize
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx

from fluoroscope.attacks.gradient_inversion.pullback.rules import RULES
from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Op, Use
from fluoroscope.attacks.gradient_inversion.pullback.rules.rows import ROW_RULES
from fluoroscope.errors import Unsupported
from fluoroscope.types import State

Rules = Mapping[object, Callable[..., Use]]
"""How a node is computed, by its operation."""


@dataclass(frozen=True)
class Step:
    """One operation. Values are known by their places in a list."""

    make: Callable[[], Op]
    inputs: tuple[int | None, ...]
    output: int
    trains: tuple[bool, ...]
    """Which inputs depend on a parameter: their cotangents make the gradient."""
    shows: tuple[bool, ...]
    """Which inputs depend on the images: the last sweep follows them."""
    layer: str | None
    """The BatchNorm module whose statistics this step measures."""


@dataclass(frozen=True)
class Program:
    """A network's forward pass."""

    steps: tuple[Step, ...]
    places: dict[str, int]
    """Of parameters and buffers that are used."""
    images: int
    output: int
    size: int


class Tracer:
    """Programs for one module, kept by the shape of the batch."""

    def __init__(self, model: nn.Module, rules: Rules = RULES) -> None:
        self._model, self._rules = copy.deepcopy(model), rules
        self.parameters = [name for name, _ in model.named_parameters()]
        self._names = self.parameters + [name for name, _ in model.named_buffers()]
        self._known: dict[object, Program | Unsupported] = {}

    def program(self, state: State, images: Tensor) -> Program:
        """The steps in the module's mode; Unsupported where an operation has no rule."""
        key = (images.shape, images.dtype, images.device)
        if key not in self._known:
            try:
                self._known[key] = self._trace(state, images)
            except Unsupported as problem:
                self._known[key] = problem
        known = self._known[key]
        if isinstance(known, Unsupported):
            raise Unsupported(f"{known} Use AutogradPullback.")
        return known

    def _trace(self, state: State, images: Tensor) -> Program:
        def network(values: Sequence[Tensor], batch: Tensor) -> Tensor:
            logits: Tensor = functional_call(self._model, dict(zip(self._names, values, strict=True)), (batch,))
            return logits

        known = {**dict(self._model.named_buffers()), **state}  # some buffers are in no state dict
        values = [known[name].detach() for name in self._names]
        try:
            with torch.no_grad():  # fake tensors: nothing is computed, and no buffer is changed
                traced = make_fx(functionalize(network), tracing_mode="fake")(values, images.detach())
        except Exception as problem:  # a module may stop a tracer in any way
            name = type(self._model).__name__
            raise Unsupported(f"{name} cannot be traced ({type(problem).__name__}: {problem}).") from problem
        return _program(traced.graph, self._names, set(self.parameters), self._rules)


class RowTracer:
    """Programs for many problems side by side, whose tensors have the problem as their first axis: one's, for all."""

    def __init__(self, model: nn.Module) -> None:
        self._one = Tracer(model, ROW_RULES)
        self.parameters = self._one.parameters

    def program(self, state: State, images: Tensor) -> Program:
        """As Tracer's."""
        return self._one.program({name: value[0] for name, value in state.items()}, images[0])


def _program(graph: Graph, names: list[str], parameters: set[str], rules: Rules) -> Program:
    *inputs, batch = (node for node in graph.nodes if node.op == "placeholder")
    (logits,) = graph.output_node().all_input_nodes
    used = _ancestors(logits)
    place = {node: i for i, node in enumerate(graph.nodes)}
    name_of = dict(zip(inputs, names, strict=True))
    trains = {node for node, name in name_of.items() if name in parameters}
    shows = {batch}
    steps: list[Step] = []
    for node in graph.nodes:
        if node not in used or node.op == "placeholder":
            continue
        if node.target is operator.getitem:  # of several results, only the first has a derivative
            if node.args[1] != 0:
                raise Unsupported(f"{node.args[0]} is used for more than its first result.")
            place[node] = place[node.args[0]]
            uses: tuple[Node | None, ...] = (node.args[0],)
        else:
            use = _use(node, rules)
            uses = use.inputs
            steps.append(
                Step(
                    use.make,
                    tuple(None if i is None else place[i] for i in uses),
                    place[node],
                    tuple(i in trains for i in uses),
                    tuple(i in shows for i in uses),
                    None if use.layer is None else name_of[use.layer].rpartition(".")[0],
                )
            )
        trains |= {node} if trains.intersection(uses) else set()
        shows |= {node} if shows.intersection(uses) else set()
    layers = [step.layer for step in steps if step.layer is not None]
    if len(set(layers)) < len(layers):
        raise Unsupported("a BatchNorm layer is used twice in one pass.")
    places = {name: place[node] for node, name in name_of.items() if node in used}
    return Program(tuple(steps), places, place[batch], place[logits], len(place))


def _use(node: Node, rules: Rules) -> Use:
    if node.target not in rules:
        raise Unsupported(f"there is no tangent rule for {node.target}.")
    return rules[node.target](*node.args, **node.kwargs)


def _ancestors(node: Node) -> set[Node]:
    found, waiting = {node}, [node]
    while waiting:
        new = set(waiting.pop().all_input_nodes) - found
        found |= new
        waiting.extend(new)
    return found
