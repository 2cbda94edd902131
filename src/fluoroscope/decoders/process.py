"""The process that decodes: it is asked for one file after another, and may die of any of them.

It is sent a line of JSON with the kind and the path, and answers with a line of JSON and the pixels as float32, or with
the bytes that a function of ours made of the file.
"""

import importlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from fluoroscope.decoders.decoded import Arrays
from fluoroscope.decoders.limits import most_memory
from fluoroscope.errors import BadInput


def serve() -> None:
    """Answer until the parent closes the pipe, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    warnings.simplefilter("ignore")  # decoders warn about headers that do no harm
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a decoder prints is no answer
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        decode = _decoder(asked["kind"])
        if asked["path"] is None:
            _tell(answers, reason="ready")
        else:
            _answer(answers, Path(asked["path"]), decode, asked["options"])


def _answer(answers: IO[bytes], path: Path, decode: Callable[..., Arrays | bytes], options: dict[str, Any]) -> None:
    size = path.stat().st_size if path.exists() else 0
    try:
        _limit_memory(most_memory(size))
        found = decode(path, **options)
        images = [] if isinstance(found, bytes) else [np.ascontiguousarray(i, dtype="<f4") for i in found.images]
    except BadInput as problem:
        _tell(answers, reason=str(problem))
        return
    except MemoryError:
        _tell(answers, reason=f"takes more than {most_memory(size) / 2**30:.1f} GB to unpack, the most for its size")
        return
    except Exception as problem:  # decoders raise nearly anything on damaged files
        _tell(answers, reason=f"cannot be read ({_first_line(problem)})")
        return
    if isinstance(found, bytes):
        _tell(answers, bytes=len(found))
        answers.write(found)
        answers.flush()
        return
    _tell(answers, shapes=[image.shape for image in images], patient=found.patient, site=found.site)
    for image in images:
        answers.write(image.data)
    answers.flush()


def _decoder(kind: str) -> Callable[..., Arrays | bytes]:
    """Imported when it is first asked for: most runs need one."""
    if kind == "dicom":
        from fluoroscope.decoders.dicom import decode_dicom

        return decode_dicom
    if kind == "nifti":
        from fluoroscope.decoders.volumes import decode_volume

        return decode_volume
    if ":" in kind:  # a function of ours, in a room that this one knows nothing of
        module, _, name = kind.partition(":")
        found: Callable[..., bytes] = getattr(importlib.import_module(module), name)
        return found
    from fluoroscope.decoders.pictures import decode_picture

    return decode_picture


def _limit_memory(most: int) -> None:
    try:
        import resource
    except ImportError:  # no such limit on Windows: pixels and time are bounded there
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))


def _tell(answers: IO[bytes], **message: object) -> None:
    answers.write(json.dumps(message).encode() + b"\n")
    answers.flush()


def _first_line(problem: Exception) -> str:
    text = str(problem).strip().splitlines()
    return text[0].rstrip(".")[:200] if text else type(problem).__name__


if __name__ == "__main__":
    serve()
