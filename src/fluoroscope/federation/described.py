"""A [model] and a [training] that are told outside of a plan: by options of a command, or by arguments."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from fluoroscope.errors import Misconfigured
from fluoroscope.federation.plan import ModelPlan
from fluoroscope.federation.training_plan import TrainingPlan


def described_model(name: str, arguments: Mapping[str, Any]) -> ModelPlan:
    """A registered name such as resnet18, or `package.module:function` with what the function is called with."""
    if ":" in name:
        return ModelPlan(factory=name, arguments=dict(arguments))
    if arguments:
        raise Misconfigured(f"--model-argument is for a network of your own, package:function, and {name!r} is none.")
    return ModelPlan(name=name)


def described_training(said: Mapping[str, Any]) -> TrainingPlan:
    """The keys of a plan's [training]; those that are None were not told."""
    try:
        return TrainingPlan.model_validate({key: value for key, value in said.items() if value is not None})
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "value_error":
            raise Misconfigured(f"{first['msg'].removeprefix('Value error, ')}.") from problem
        if first["type"] == "extra_forbidden":
            known = ", ".join(TrainingPlan.model_fields)
            raise Misconfigured(f"a training has no setting {where!r}; it has {known}.") from problem
        raise Misconfigured(f"training: {where}: {first['msg']}, not {first['input']!r}.") from problem
