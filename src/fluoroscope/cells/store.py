"""Finished cells on disk, so that nothing is run twice: numbers as JSON, images as safetensors, nothing unpickled.

A cell is known by its settings, its attack, the seed and, where its images are files, by those: change one, and it is
another cell. The JSON is written last, so a kill leaves whole cells only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_folder, write_tensors, write_text
from fluoroscope.cells.cell import Cell, Result
from fluoroscope.data.recognition import image_files
from fluoroscope.digest import digest
from fluoroscope.errors import BadInput


def key(cell: Cell, seed: int) -> str:
    """The name under which the cell is kept."""
    return digest(version("fluoroscope"), cell, cell.attack, seed, list(_files(cell.data)))[:24]


@dataclass(frozen=True)
class CellStore:
    """A folder of finished cells."""

    folder: Path

    def has(self, name: str) -> bool:
        """Whether the cell is finished."""
        return self._paths(name)[0].exists()

    def load(self, name: str) -> tuple[Result, float] | None:
        """A finished cell and the seconds that it took; None where there is none."""
        numbers, images = self._paths(name)
        if not numbers.exists():
            return None
        try:
            read = strict_json.loads(numbers.read_text())
            tensors = load_file(images) if images.exists() else {}
            parts = (read["measures"], read["curves"], read.get("notes", {}))
            if not all(isinstance(part, dict) for part in parts):
                raise TypeError("it holds something else than a cell's numbers")
            return Result(parts[0], parts[1], tensors, parts[2]), float(read["seconds"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, SafetensorError) as problem:
            raise BadInput(f"{numbers} is damaged ({problem}): delete it, and its cell is run again.") from problem

    def save(self, name: str, settings: dict[str, Any], result: Result, seconds: float, title: str = "") -> None:
        numbers, images = self._paths(name)
        make_folder(self.folder)
        if result.images:
            write_tensors(images, {label: tensor.clone() for label, tensor in result.images.items()})
        content = {
            "title": title,
            "settings": settings,
            "measures": result.measures,
            "curves": result.curves,
            "notes": result.notes,
            "seconds": seconds,
        }
        write_text(numbers, strict_json.dumps(content))

    def _paths(self, name: str) -> tuple[Path, Path]:
        return self.folder / f"{name}.json", self.folder / f"{name}.safetensors"


def _files(source: str) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of the files that a source reads, or several on a line each; phantoms are made and have none.

    A file that no loader looks at changes no cell.
    """
    for line in source.splitlines():
        root = Path(line.partition(":")[2] or line).expanduser()
        found = image_files(root) if root.is_dir() else [root] if root.is_file() else []
        for path in found:
            about = path.stat()
            yield str(path), about.st_size, about.st_mtime_ns
