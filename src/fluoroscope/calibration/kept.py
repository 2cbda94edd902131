"""Settings that were tried, on disk: a search that was stopped asks nothing twice."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_folder, write_text
from fluoroscope.calibration.measured import Measured, from_plain
from fluoroscope.errors import BadInput

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tried:
    """A folder with a file per setting, each whole or not there."""

    folder: Path

    def load(self, key: str) -> Measured | None:
        """None where it was not tried, or where its file cannot be read: then it is tried again."""
        path = self._path(key)
        try:
            return from_plain(strict_json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, BadInput) as problem:
            _LOG.warning("%s cannot be read (%s): its setting is tried again.", path, problem)
            return None

    def once(self, key: str, measure: Callable[[], Measured]) -> Measured:
        """What was measured under this key; measured now, and kept, where it was not."""
        found = self.load(key)
        if found is None:
            found = measure()
            self.keep(key, found)
        return found

    def keep(self, key: str, found: Measured) -> None:
        make_folder(self.folder)
        write_text(self._path(key), strict_json.dumps(found.plain()))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key[:24]}.json"
