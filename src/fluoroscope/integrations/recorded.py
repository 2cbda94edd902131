"""Updates of a federation that is not ours, on disk: safetensors and JSON, checksummed, each one whole or not there.

    FOLDER/models/SHA256.safetensors               a model that clients were sent, once however many were sent it
    FOLDER/rounds/0003/CLIENT/after.safetensors    what one client sent back in round 3
    FOLDER/rounds/0003/CLIENT/update.json          which model it was sent, checksums, and what is known of its training

A client's folder is prepared under a hidden name and renamed when it is whole. Every client writes its own, so several
processes can share a folder. Nothing in here is ever unpickled.
"""

import hashlib
import os
import secrets
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote

from pydantic import PlainValidator, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_folder, sync, write_bytes, write_text
from fluoroscope.errors import BadInput
from fluoroscope.federation.manifest import StoredNetwork
from fluoroscope.federation.training_record import plain_training, read_training
from fluoroscope.models import Architecture, ImportedNetwork
from fluoroscope.types import NO_CLAIM, LocalTraining, Network, PrivacyClaim, State

FORMAT = 1


def _training(plain: object) -> LocalTraining | None:
    return None if plain is None else read_training(plain)


@dataclass(frozen=True)
class RecordedUpdate:
    """What is known of one update beside its arrays."""

    client: str
    round: int
    before: str
    """SHA-256 of the file of the model that it started from."""
    after: str
    """SHA-256 of the file of what was sent back."""
    training: Annotated[LocalTraining | None, PlainValidator(_training)] = None
    network: StoredNetwork | None = None
    """What it trains, where it can be built again: a registered name or an import path."""
    claim: PrivacyClaim = NO_CLAIM
    format: int = FORMAT

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "training": None if self.training is None else plain_training(self.training)}


class RecordedUpdates:
    """The recorded updates in one folder.

    Args:
        folder: made when the first update is written.

    Example:
        >>> import tempfile, torch
        >>> updates = RecordedUpdates(Path(tempfile.mkdtemp()) / "updates")
        >>> before = {"weight": torch.zeros(2)}
        >>> updates.write("north", 1, before, {"weight": torch.ones(2)})
        >>> updates.rounds(), updates.clients(1)
        ([1], ['north'])
        >>> updates.load(1, "north")[1]["weight"]
        tensor([1., 1.])
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def write(
        self,
        client: str,
        round: int,
        before: State,
        after: State,
        training: LocalTraining | None = None,
        network: Network | None = None,
        claim: PrivacyClaim = NO_CLAIM,
    ) -> None:
        """Keep one client's update of one round; the same one twice is kept once.

        Raises:
            BadInput: the name or the round is none, or another update of this client and round is here already.
        """
        if round < 0:
            raise BadInput(f"round {round} is none: rounds are counted from 0 or 1.")
        folder = self._round(round) / _folder_name(client)
        sent, back = _bytes(before), _bytes(after)
        about = RecordedUpdate(client, round, _checksum(sent), _checksum(back), training, _storable(network), claim)
        if folder.exists():
            self._check_same(about)
            return
        if not self.folder.exists():
            make_folder(self.folder, private=True)  # an update is as private as the images behind it
        self._keep_model(about.before, sent)
        part = folder.with_name(f".{folder.name[:100]}.{secrets.token_hex(8)}.part")
        make_folder(part)
        try:
            write_bytes(part / "after.safetensors", back)
            write_text(part / "update.json", strict_json.dumps(about.plain()))
            sync(part)
            part.rename(folder)
        except OSError:
            shutil.rmtree(part, ignore_errors=True)
            if not folder.exists():
                raise
            self._check_same(about)  # another process was quicker
        sync(folder.parent)

    def rounds(self) -> list[int]:
        """The rounds of which an update is kept, in order."""
        found = [int(path.name) for path in self.folder.glob("rounds/[0-9]*") if path.name.isdecimal()]
        return sorted(each for each in found if self.clients(each))

    def clients(self, round: int) -> list[str]:
        """Whose update of this round is kept, in order."""
        folder = self._round(round)
        return sorted(unquote(p.name) for p in folder.glob("*") if p.is_dir() and not p.name.startswith("."))

    def about(self, round: int, client: str) -> RecordedUpdate:
        """What is known of an update beside its arrays."""
        path = self.place(round, client) / "update.json"
        try:
            return TypeAdapter(RecordedUpdate).validate_json(path.read_bytes())
        except FileNotFoundError as problem:
            known = "; ".join(f"round {r}: {', '.join(self.clients(r))}" for r in self.rounds()) or "none"
            raise BadInput(f"{self.folder} has no update of {client!r} in round {round}; it has {known}.") from problem
        except (ValidationError, OSError) as problem:
            raise BadInput(f"{path} is damaged and cannot be read; delete its folder {path.parent}.") from problem

    def load(self, round: int, client: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The model that the client was sent, and what it sent back."""
        about = self.about(round, client)
        after = self.place(round, client) / "after.safetensors"
        return _tensors(self._model(about.before), about.before), _tensors(after, about.after)

    def place(self, round: int, client: str) -> Path:
        """The folder of one update."""
        return self._round(round) / _folder_name(client)

    def _keep_model(self, checksum: str, content: bytes) -> None:
        path = self._model(checksum)
        if path.exists():
            return
        make_folder(path.parent)
        part = path.with_name(f"{secrets.token_hex(8)}.part")  # of this process alone: others may write the same model
        try:
            write_bytes(part, content)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
        sync(path.parent)

    def _check_same(self, now: RecordedUpdate) -> None:
        then = self.about(now.round, now.client)
        if (then.before, then.after) != (now.before, now.after):
            raise BadInput(
                f"{self.folder} holds another update of {now.client!r} in round {now.round} already: each run needs a "
                "folder of its own."
            )

    def _round(self, round: int) -> Path:
        return self.folder / "rounds" / f"{round:04d}"

    def _model(self, checksum: str) -> Path:
        return self.folder / "models" / f"{checksum}.safetensors"


def _folder_name(client: str) -> str:
    """The name as one folder's: what could lead elsewhere is written in percent signs, as in an address."""
    name = quote(client, safe="")
    name = f"%2E{name[1:]}" if name.startswith(".") else name
    if not name or len(name) > 200:
        raise BadInput(f"a client's name has 1 to 200 characters, not {client[:40]!r}.")
    return name


def _storable(network: Network | None) -> StoredNetwork | None:
    """A live module cannot be written down: whoever reads its updates brings it along again."""
    return StoredNetwork.of(network) if isinstance(network, Architecture | ImportedNetwork) else None


def _bytes(state: State) -> bytes:
    """Sorted, and each tensor on its own memory: the same arrays are the same bytes."""
    return save({name: state[name].detach().cpu().contiguous().clone() for name in sorted(state)})


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _tensors(path: Path, expected: str) -> dict[str, Tensor]:
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise BadInput(f"{path} cannot be read ({problem.strerror}): the update is not whole.") from problem
    if _checksum(content) != expected:
        raise BadInput(f"{path} is damaged: its checksum is not the one that was written with it.")
    try:
        return dict(sorted(load(content).items()))
    except SafetensorError as problem:
        raise BadInput(f"{path} is not a safetensors file: {problem}.") from problem
