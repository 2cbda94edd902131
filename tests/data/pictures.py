"""Small folders of pictures for the tests."""

from pathlib import Path

import numpy as np
from PIL import Image


def pixels(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, array: np.ndarray, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **options)
    return path


def class_folders(root: Path, count: int = 3, size: int = 8, classes: tuple[str, ...] = ("normal", "sick")) -> Path:
    for c, name in enumerate(classes):
        for i in range(count):
            save(root / name / f"{i}.png", pixels(100 * c + i, size, size))
    return root


def write_table(root: Path, rows: list[str], header: str = "file,label,patient,licence") -> Path:
    path = root / "images.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path
