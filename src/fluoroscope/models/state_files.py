"""State dicts in files, as trainers and federations leave them: tensors only, never code.

A checkpoint holds more than weights, and every trainer names them in its own way. What has one right answer is
understood; anything else is an error that names the file.
"""

import json
import struct
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file, save
from torch import Tensor

from fluoroscope.decoders import bytes_apart
from fluoroscope.errors import BadInput, BringsCode
from fluoroscope.models.code_files import check_no_code, refuse_pickled_code

KINDS = (".pt", ".pth", ".safetensors", ".npz")
KEYS = ("model_state_dict", "state_dict", "model", "net", "network", "module", "weights", "params", "parameters")
"""Where trainers put the weights in a checkpoint that also holds an optimiser, an epoch and the like."""
_DEEP = 3
"""Tables within tables that are looked through."""
_LONGEST_NAME = 1000
_DAMAGED = "was not read: it is damaged"
_BRINGS_CODE = "brings code: "
"""How the process that unpacks says it: it has one kind of error."""
_MOST_BYTES = 8 * 2**30
"""Of an .npz when it is unpacked: a small file may claim to hold any number of zeros."""
_NUMBERS = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.bool,
)  # fmt: skip
# What a numpy array is made of when it stands in a pickle: data, no code.
_ARRAYS = (
    np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
    np.ndarray,
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "?")),
)


def read_state(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a .pt, .pth, .safetensors or .npz file by name, on the CPU.

    In a checkpoint that holds more, the state dict is found under the usual names: `{'model': ...}`.

    Raises:
        BringsCode: it is a program, a pickle with code, or a configuration that is evaluated. Nothing of it was run.
        BadInput: there is no such file, it is damaged or empty, or it holds no state dict.
    """
    file = Path(path)
    check_no_code(file)
    if not file.is_file():
        raise BadInput(
            f"there is no weights file {file}. Give the path of a state dict in a .pt, .pth, .safetensors or .npz file."
        )
    if file.suffix not in KINDS:
        raise BadInput(f"{file} ends in {file.suffix!r}; weights are read from {', '.join(KINDS)} files.")
    if not file.stat().st_size:
        raise BadInput(f"{file} was not read: it is empty (0 bytes), and no model. Ask for it again.")
    if file.suffix == ".safetensors":
        return _checked(_read_safetensors(file), file)
    _check_unpacked(file)
    return _read_apart(file)


def plain_state(content: object) -> dict[str, Tensor] | None:
    """The state dict in what a checkpoint holds, numpy arrays as tensors; None where there is none, or more than one.

    Example:
        >>> import torch
        >>> list(plain_state({"epoch": 3, "model": {"head.bias": torch.zeros(2)}}))
        ['head.bias']
    """
    return _within(content, _DEEP)


def _within(content: object, deep: int) -> dict[str, Tensor] | None:
    if not isinstance(content, Mapping) or not content:
        return None
    if all(isinstance(name, str) and isinstance(value, Tensor | np.ndarray) for name, value in content.items()):
        try:
            return {name: v if isinstance(v, Tensor) else torch.from_numpy(v.copy()) for name, v in content.items()}
        except TypeError:  # an array of texts or objects
            return None
    if not deep:
        return None
    for key in KEYS:
        if (found := _within(content.get(key), deep - 1)) is not None:
            return found
    inner = [found for value in content.values() if (found := _within(value, deep - 1)) is not None]
    return inner[0] if len(inner) == 1 else None


def _read_apart(file: Path) -> dict[str, Tensor]:
    """Pickles and archives are unpacked in a process that may die of them (decoders/apart.py)."""
    try:
        content = bytes(bytes_apart(f"{__name__}:unpacked", file))
    except BadInput as problem:
        reason = str(problem)
        if reason.startswith(_BRINGS_CODE):
            raise BringsCode(f"{file} {reason.removeprefix(_BRINGS_CODE)}") from problem
        if reason.startswith(_DAMAGED):
            refuse_pickled_code(file)
        raise BadInput(f"{file} {reason}{'' if reason.endswith('.') else '.'}") from problem
    (size,) = struct.unpack("<Q", content[:8])
    names = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["names"])
    held = load(content)
    return {name: held[str(number)] for number, name in enumerate(names)}


def unpacked(file: Path) -> bytes:
    """The state dict of a .pt, .pth or .npz file as safetensors, numbered in its order; the names stand in the header.

    Raises:
        BadInput: with the reason alone, as a decoder says it.
    """
    try:
        found = _checked((_read_arrays if file.suffix == ".npz" else _read_pickle)(file), file)
    except BadInput as problem:
        code = _BRINGS_CODE if isinstance(problem, BringsCode) else ""
        raise type(problem)(code + str(problem).removeprefix(str(file)).lstrip()) from problem
    numbered = {str(number): value.contiguous().clone() for number, value in enumerate(found.values())}
    return save(numbered, {"names": json.dumps(list(found))})


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        refuse_pickled_code(file)
        raise BadInput(f"{file} is not a readable safetensors file: {error}.") from error


def _read_arrays(file: Path) -> dict[str, Tensor]:
    try:
        if not zipfile.is_zipfile(file):
            raise ValueError("no archive")
        with np.load(file, allow_pickle=False) as arrays:
            held: dict[str, Any] = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        if "allow_pickle" in str(error):
            raise BringsCode(
                f"{file} was not read: it holds objects besides arrays, which may run code and are never unpickled. "
                "Ask for np.savez(..., **{name: array})."
            ) from error
        raise BadInput(
            f"{file} was not read: it is damaged, or no archive of arrays. Ask for np.savez(..., **{{name: array}})."
        ) from error
    return _state_of(held, file)


def _check_unpacked(file: Path) -> None:
    """A small file may claim to hold any number of zeros."""
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(part.file_size for part in archive.infolist())
    except (
        OSError,
        ValueError,
        NotImplementedError,
        zipfile.BadZipFile,
    ):  # no archive, or a damaged one: its reader says
        return
    if size > _MOST_BYTES:
        raise BadInput(f"{file} unpacks to {size / 2**30:.0f} GB; the most that is read is {_MOST_BYTES >> 30} GB.")


def _checked(state: dict[str, Tensor], file: Path) -> dict[str, Tensor]:
    """The state, once it is known that each of its tensors is a plain array of numbers of its own."""
    if not any(value.numel() for value in state.values()):
        held = f"{len(state)} arrays without a number in them" if state else "no array"
        raise BadInput(f"{file} holds {held}, and is no model: save model.state_dict() of a network.")
    for name, value in state.items():
        short = name[:80].encode(errors="replace").decode()
        if len(name) > _LONGEST_NAME or short != name[:80]:
            raise BadInput(f"{file}: {short!r} is no name of a tensor: letters, and at most {_LONGEST_NAME} of them.")
        if value.layout is not torch.strided or value.is_quantized or value.device.type == "meta":
            raise BadInput(f"{file}: {short} is sparse, quantised or without numbers; save a plain tensor.")
        if value.dtype not in _NUMBERS:
            kind = str(value.dtype).removeprefix("torch.")
            raise BadInput(f"{file}: {short} is of the type {kind}, which no network here has.")
        if not value.numel():
            raise BadInput(f"{file}: {short} has the shape {list(value.shape)}, and holds no number.")
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise BadInput(f"{file}: {short} repeats a few numbers to {value.numel():,}; save it as a plain tensor.")
    return state


def _read_pickle(file: Path) -> dict[str, Tensor]:
    try:
        # weights_only: a pickle may otherwise run any code of its author's when it is opened.
        with torch.serialization.safe_globals(list(_ARRAYS)), warnings.catch_warnings(action="ignore"):
            content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a bad file stops the reader anywhere: zip, pickle, storage
        raise BadInput(
            f"{file} {_DAMAGED}, or holds objects besides tensors, which are never unpickled. "
            "Ask for a plain state dict, from torch.save(model.state_dict(), ...), or for safetensors."
        ) from error
    return _state_of(content, file)


def _state_of(content: object, file: Path) -> dict[str, Tensor]:
    found = plain_state(content)
    if found is not None:
        return found
    if isinstance(content, Mapping) and not content:
        raise BadInput(f"{file} holds an empty state dict, and is no model: save model.state_dict() of a network.")
    several = [str(key) for key, value in content.items() if plain_state(value)] if isinstance(content, Mapping) else []
    if several:
        raise BadInput(f"{file} holds several state dicts ({', '.join(several)}): save the one that is meant.")
    raise BadInput(f"{file} holds no state dict (names to tensors) but a {type(content).__name__} of other things.")
