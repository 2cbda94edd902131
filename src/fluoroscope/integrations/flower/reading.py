"""What can be read in a message of anybody's app: the model that it carries, and what travels beside it.

What cannot be read is an error here, and whoever asked withholds the message.
"""

from flwr.app import ArrayRecord, Message, RecordDict
from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.federation.messages import to_state
from fluoroscope.integrations.plain_values import check_plain

ARRAYS = "arrays"
"""The usual key of a model in a message."""


def round_of(message: Message) -> int:
    """The round as the server numbers it; 0 where it says none."""
    for settings in message.content.config_records.values() if message.has_content() else ():
        told = settings.get("server-round")
        if isinstance(told, int) and told >= 0:
            return told
    group = message.metadata.group_id
    return int(group) if group.isdecimal() and len(group) < 10 else 0


def model_key(content: RecordDict) -> str:
    """Under which key the message carries its model.

    Raises:
        BadInput: there is no array record, or there are several.
    """
    held = [key for key, record in content.array_records.items() if record]
    if not held:
        raise BadInput("the message carries no arrays.")
    if len(held) > 1:
        raise BadInput(f"the message carries {len(held)} array records, and one model was expected.")
    return held[0]


def model_of(content: RecordDict) -> dict[str, Tensor]:
    """The one model that a message carries, in tensors of our own.

    Raises:
        BadInput: there is none, there are several, or the arrays have no names (the legacy API).
    """
    return state_of(content.array_records[model_key(content)])


def state_of(record: ArrayRecord) -> dict[str, Tensor]:
    """One array record as tensors by name."""
    if not all(array.dtype for array in record.values()):
        raise BadInput(
            "the arrays are numbered, as the legacy API (NumPyClient) sends them: they cannot be told apart."
        )
    try:
        return to_state(record)
    except (TypeError, ValueError) as problem:
        raise BadInput(f"the arrays cannot be read ({type(problem).__name__}).") from problem


def check_beside(content: RecordDict) -> None:
    """Refuse a message that carries as much beside its model as an image would be.

    Raises:
        Refused: there are more numbers or characters than metrics and settings need.
    """
    check_plain(
        [list(content), list(content.metric_records.values()), list(content.config_records.values())],
        "records",
        allow_bytes=True,
    )
