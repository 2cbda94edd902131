"""Files that are there whole or not at all: a kill or a full disk leaves the old one, and no remains."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # torch takes seconds to import, and who writes text need not wait for it
    from torch import Tensor


def write_text(path: Path, text: str, private: bool = False) -> None:
    """The text at `path`, on disk when this returns; a private file is its owner's alone."""
    _whole(path, lambda part: part.write_text(text, encoding="utf-8", newline="\n"), private)


def write_bytes(path: Path, content: bytes, private: bool = False) -> None:
    """The same of bytes, such as a picture's."""
    _whole(path, lambda part: part.write_bytes(content), private)


def replace_text(path: Path, text: str) -> None:
    """The text at `path`, whole for every reader, but not waited for: a power failure may lose it."""
    _whole(path, lambda part: part.write_text(text, encoding="utf-8"), wait=False)


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]", about: Mapping[str, str] | None = None) -> None:
    """The tensors at `path`, as safetensors; `about` stands in the file's header."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    _whole(path, lambda part: _save(plain, part, about))


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path, private: bool = False) -> None:
    """The folder and those above it; a private one is its owner's alone, whatever it was before."""
    path.mkdir(parents=True, exist_ok=True)
    if private:
        path.chmod(0o700)


def _whole(path: Path, write: Callable[[Path], object], private: bool = False, wait: bool = True) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        if private:  # before anything is in it
            os.close(os.open(part, os.O_CREAT | os.O_WRONLY, 0o600))
            part.chmod(0o600)
        write(part)
        if wait:
            sync(part)
        part.replace(path)
    except OSError as problem:
        part.unlink(missing_ok=True)
        raise OSError(problem.errno, problem.strerror, str(path)) from problem


def _save(tensors: "dict[str, Tensor]", part: Path, about: Mapping[str, str] | None) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(tensors, part, None if about is None else dict(about))
    except SafetensorError as problem:  # hides the number of the system's error in its text
        found = re.search(r"os error (\d+)", str(problem))
        if found is None:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1]))) from problem
