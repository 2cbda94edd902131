"""Between tensors by name and Flower's records; what a message asks for."""

from collections.abc import Mapping

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Message, MessageType
from torch import Tensor

from fluoroscope.types import State


def to_arrays(state: State) -> ArrayRecord:
    """Tensors as they go over the wire."""
    return ArrayRecord({name: Array(np.asarray(value.detach().cpu().numpy())) for name, value in state.items()})


def to_state(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """Arrays off the wire as tensors of our own; Flower reads them without unpickling anything."""
    return {name: torch.from_numpy(array.numpy()) for name, array in arrays.items()}


def is_train(message: Message) -> bool:
    """Whether a client is asked to train, by whichever of its functions."""
    return message.metadata.message_type.partition(".")[0] == MessageType.TRAIN
