"""Files that bring code where weights were asked for: told by looking at them, and never by running anything.

TorchScript and exported programs, pickles of objects, scripts, and the configuration of a MONAI bundle, whose
`_target_` and `$` entries are evaluated when MONAI reads it (GHSA-x6pr-233j-x5cw).
"""

import io
import json
import pickletools
import zipfile
from collections.abc import Mapping
from pathlib import Path

from fluoroscope.errors import BringsCode

_CONFIGURATIONS = (".json", ".yaml", ".yml")
_SCRIPTS = (".py", ".pyc", ".sh", ".so", ".ipynb", ".jar")
_ASK = "Ask for the weights alone: torch.save(model.state_dict(), ...) or, better, a .safetensors file."
_MOST = 64 * 2**20
"""Bytes of a file that are looked at for what it would run; weights lie elsewhere in it."""
_HARMLESS = ("collections.OrderedDict", "torch._utils._rebuild_", "torch.storage.", "_codecs.encode")
_ARRAYS = ("Storage", ".multiarray._reconstruct", "numpy.ndarray", "numpy.dtype")
"""Names that tensors and arrays are made of in any pickle; how they end."""


def check_no_code(file: Path) -> None:
    """Refuse a file or folder that is code by its form, whatever its name says.

    Raises:
        BringsCode: it is a program, a script, or a configuration that is evaluated.
    """
    if file.is_dir():
        if _configurations(file):
            raise BringsCode(
                f"{file} is a bundle: its configuration runs code when it is read, and was not read. Give the weights "
                "in it, usually models/model.pt, by themselves."
            )
        return
    if file.suffix in _SCRIPTS:
        raise BringsCode(f"{file} is code, and was not run. {_ASK}")
    if file.suffix in _CONFIGURATIONS and _is_evaluated(file):
        raise BringsCode(
            f"{file} is a configuration with _target_ or $ entries, which MONAI runs as code; none was run. {_ASK}"
        )
    if program := _program(file):
        raise BringsCode(f"{file} was not read: it is {program}, which brings code of its own; none was run. {_ASK}")


def refuse_pickled_code(file: Path) -> None:
    """Refuse a pickle that could not be read as tensors where what it would call or build can be told.

    Raises:
        BringsCode: with the first names.
    """
    found = dict.fromkeys(_globals(_pickle_in(file)))
    named = [name for name in found if not name.startswith(_HARMLESS) and not name.endswith(_ARRAYS)]
    if named:
        some = ", ".join(named[:3]) + (", ..." if len(named) > 3 else "")
        raise BringsCode(f"{file} was not read: it is a pickle that asks for code to be run ({some}); none was. {_ASK}")


def is_evaluated(content: object) -> bool:
    """Whether a configuration has entries that MONAI evaluates.

    Example:
        >>> is_evaluated({"network": {"_target_": "UNet", "channels": 3}})
        True
        >>> is_evaluated({"lr": "$1 / 10"}), is_evaluated({"lr": 0.1})
        (True, False)
    """
    if isinstance(content, Mapping):
        return any(key == "_target_" or is_evaluated(value) for key, value in content.items())
    if isinstance(content, list | tuple):
        return any(map(is_evaluated, content))
    return isinstance(content, str) and content.lstrip().startswith("$")


def _is_evaluated(file: Path) -> bool:
    with file.open("rb") as stream:
        text = stream.read(_MOST).decode(errors="replace")
    try:
        return is_evaluated(json.loads(text))
    except (ValueError, RecursionError):  # YAML, or damaged: its words decide
        parts = text.replace(":", "\n").replace(",", "\n").splitlines()
        return "_target_" in text or any(part.lstrip(" \"'[{-").startswith("$") for part in parts)


def _configurations(folder: Path) -> list[Path]:
    places = [place for place in (folder, folder / "configs") if place.is_dir()]
    return [path for place in places for path in place.iterdir() if path.suffix in _CONFIGURATIONS]


def _program(file: Path) -> str | None:
    """What kind of program an archive is; None for an archive of arrays and for all other files."""
    names = _names(file)
    inner = {name.partition("/")[2] for name in names}
    if any(name.startswith("code/") for name in inner) or "constants.pkl" in inner:
        return "a TorchScript program"
    if "archive_format" in inner or any(name.endswith((".so", ".py")) for name in names):
        return "an exported program"
    if any(name.startswith("configs/") for name in inner.union(names)):
        return "a MONAI bundle"
    return None


def _names(file: Path) -> list[str]:
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return []


def _pickle_in(file: Path) -> bytes:
    """The pickle of an archive that torch wrote, or the file itself."""
    try:
        with zipfile.ZipFile(file) as archive:
            inner = next((name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"), None)
            if inner is None:
                return b""
            with archive.open(inner) as stream:
                return stream.read(_MOST)
    except (OSError, ValueError, NotImplementedError, RuntimeError, zipfile.BadZipFile):
        with file.open("rb") as stream:
            return stream.read(_MOST)


def _globals(content: bytes) -> list[str]:
    """Every class or function that the pickles in it name, read operation by operation: nothing is looked up."""
    stream, found, texts = io.BytesIO(content), [], list[str]()
    try:
        while stream.tell() < len(content):  # older files are several pickles, one behind the other
            for operation, argument, _ in pickletools.genops(stream):
                if operation.name in ("GLOBAL", "INST"):
                    found.append(str(argument).replace(" ", "."))
                elif operation.name == "STACK_GLOBAL":
                    found.append(".".join(texts[-2:]))
                elif isinstance(argument, str):
                    texts.append(argument)
    except (ValueError, UnicodeError, EOFError):  # where the pickles end, tensors begin
        pass
    return found
