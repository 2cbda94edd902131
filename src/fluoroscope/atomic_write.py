"""Files that are there whole or not at all: a kill or a full disk leaves the old one, and no remains.

What is written into a private folder is private too, under any umask: so only who makes a run's folder decides it.
"""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
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


def write_new(path: Path, content: bytes, private: bool = False) -> None:
    """The same of a file that must not be there before.

    Raises:
        FileExistsError: it is there, and stays as it was.
    """
    if path.exists():  # said before anything is written; who comes between is found below
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    _whole(path, lambda part: part.write_bytes(content), private, new=True)


def copy_file(path: Path, to: Path) -> None:
    """The file at `to` as well, in a folder that is made."""
    make_folder(to.parent)
    _whole(to, lambda part: shutil.copyfile(path, part))


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
    """The folder and those above it. A private one is its owner's alone, whatever it was before; so is every new one
    in a private one."""
    if not path.exists():
        if not path.parent.exists():
            make_folder(path.parent)
        private = private or is_private(path.parent)
        path.mkdir(mode=0o700 if private else 0o777, exist_ok=True)
    elif not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if private:
        path.chmod(0o700)


def make_run_folder(out: Path, inside: Iterable[str], private: bool) -> None:
    """The folder of a run. Where images are of patients it is its owner's alone, and in a folder that was there before,
    which stays as it was, those folders `inside` that hold them."""
    if not out.exists():
        make_folder(out, private)
    elif private:
        for name in inside:
            make_folder(out / name, private)


def is_private(folder: Path) -> bool:
    """Whether the folder is its owner's alone."""
    return folder.stat().st_mode & 0o077 == 0


def _whole(
    path: Path, write: Callable[[Path], object], private: bool = False, wait: bool = True, new: bool = False
) -> None:
    if path.is_dir():  # said before anything is written; "." and "/" have no name of which a part's could be made
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    # Of a new file every process has its own part: until the name of the first one's is gone, both are one file.
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part" if new else f".{path.name}.part")
    try:
        private = private or is_private(path.parent)
        if private:  # before anything is in it
            os.close(os.open(part, os.O_CREAT | os.O_WRONLY, 0o600))
            part.chmod(0o600)
        write(part)
        if private:  # a writer may have put a file of its own there
            part.chmod(0o600)
        if wait:
            sync(part)
        if new:
            os.link(part, path)  # a file that is there does not give way
            part.unlink()
        else:
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
