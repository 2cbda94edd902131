"""Records on disk: safetensors and JSON, checksummed, written whole rounds at a time.

    DIR/run.json                    the plan, the architecture, the clients, versions
    DIR/plan.private.json           the plan with its paths, where it has some
    DIR/rounds/0003/manifest.json   metrics, each client's training, checksums of the files beside it
    DIR/rounds/0003/CLIENT.safetensors   parameters and buffers as that client sent them in round 3
    DIR/rounds/0003/global.safetensors   the global state after round 3 (round 0: the initial one)
    DIR/rounds/0003/server.safetensors   what the strategy remembers, where it remembers anything
    DIR/rounds/0003/timing.json     seconds; the only file that differs between two runs of one seed
    DIR/checksums.json              of run.json, of every round's manifest and of what lies beside the rounds

A round is prepared in a hidden folder and renamed when it is whole, so a kill leaves whole rounds only.
Nothing in here is ever unpickled.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_folder, sync, write_tensors, write_text
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation.checksums import CHECKSUMS, Checksums
from fluoroscope.federation.evaluation import is_utility
from fluoroscope.federation.manifest import RoundManifest, RunHeader
from fluoroscope.types import Network, State, UpdateRecord, split_state

PRIVATE_PLAN = "plan.private.json"
"""The plan with its paths: stays where it is when a run is sent around."""
RESULT = "result.json"
"""Written last: where it is, all rounds of the header's plan are done."""
_OURS = {"rounds", PRIVATE_PLAN, f".{PRIVATE_PLAN}.part", "run.json", ".run.json.part", CHECKSUMS, f".{CHECKSUMS}.part"}
T = TypeVar("T")


class RecordStore:
    """The records of one run in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._manifests: dict[int, RoundManifest] = {}

    # --- writing -------------------------------------------------------------------------------------------

    def begin(self, header: RunHeader, plan: dict[str, Any] | None = None, private: bool = False) -> None:
        """Open the folder for this run, or go on with it as it was begun; a folder of another plan is refused.

        `plan` is the header's with the paths that nobody else should read: it has a file of its own. The updates of
        patients are private.
        """
        if self.rounds():
            header = self._going_on(header)
        elif self.folder.exists() and {path.name for path in self.folder.iterdir()} - _OURS:
            raise BadInput(f"{self.folder} is not empty and holds no run. Choose another --out.")
        for left_over in self.folder.glob("rounds/.*"):
            shutil.rmtree(left_over)
        if not self.folder.exists():
            make_folder(self.folder, private)
        make_folder(self.folder / "rounds", private)
        if plan is not None and plan != header.plan:
            write_text(self.folder / PRIVATE_PLAN, strict_json.dumps(plan), private=True)
        write_text(self.folder / "run.json", strict_json.dumps(asdict(header)))
        self._checksums.note("run.json", *(self._manifest_name(r) for r in self.rounds()), again=("run.json",))
        if self.rounds():  # a kill may have come between a round and its tidying up
            self._prune()

    def _going_on(self, header: RunHeader) -> RunHeader:
        """The header to go on with; what would mix two different runs is refused."""
        begun = self.header
        for what, then, now in (
            ("plan", begun.fingerprint, header.fingerprint),
            ("set of images, or of other initial weights", begun.data, header.data),
        ):
            if then != now:
                raise BadInput(
                    f"{self.folder} holds the records of another {what}. Choose another --out, or delete that folder."
                )
        if begun.versions != header.versions:
            changed = [f"{k} {v}" for k, v in begun.versions.items() if header.versions.get(k) != v]
            raise BadInput(
                f"{self.folder} was begun with {', '.join(changed)}, and the rest would not match. Install that again, "
                "or choose another --out."
            )
        return replace(header, threads=begun.threads)

    def write_file(self, server_round: int, name: str, state: State) -> str:
        """A file of a round that is not whole yet; gives its checksum."""
        part = self._part(server_round)
        make_folder(part)
        write_tensors(part / name, state)
        with (part / name).open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
            if hasattr(os, "posix_fadvise"):  # the next file takes these pages: fresh ones cost more than the write
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return checksum

    def commit(self, manifest: RoundManifest, timing: Mapping[str, float]) -> None:
        """Make the round whole. What the next round and the records do not need is dropped."""
        part = self._part(manifest.round)
        write_text(part / "manifest.json", strict_json.dumps(manifest.plain()))
        write_text(part / "timing.json", strict_json.dumps(dict(timing)))
        sync(part)
        part.rename(self._round(manifest.round))
        sync(self.folder / "rounds")
        self._checksums.note(self._manifest_name(manifest.round))
        self._prune()

    def settle(self) -> None:
        """List what a kill came before, in a run that is finished and is not gone on with."""
        if (self.folder / CHECKSUMS).exists():
            self._checksums.note(*(self._manifest_name(r) for r in self.rounds()), RESULT)
            (self.folder / f".{CHECKSUMS}.part").unlink(missing_ok=True)

    def write_text(self, name: str, text: str) -> Path:
        """A file of the finished run, beside its rounds."""
        write_text(self.folder / name, text)
        self._checksums.note(name, again=(name,))
        return self.folder / name

    def remove(self, name: str) -> None:
        """A file of a run that goes on, and is finished no longer."""
        (self.folder / name).unlink(missing_ok=True)
        self._checksums.forget(name)

    def _prune(self) -> None:
        """Keep a global state only where a record starts from it, where it is the best, or to go on from it."""
        best, (*earlier, _) = self.best_round(), self.rounds()
        for server_round in earlier:
            for name in ("global.safetensors", "server.safetensors"):
                if not self.needs(server_round, name, best):
                    (self._round(server_round) / name).unlink(missing_ok=True)

    def needs(self, server_round: int, name: str, best: int | None) -> bool:
        """Whether a file stays on disk when later rounds have come."""
        if name != "global.safetensors":
            return name != "server.safetensors"
        return server_round == best or any(e.recorded for e in self.manifest(server_round + 1).clients.values())

    def exists(self) -> bool:
        """Whether a run was begun in this folder."""
        return (self.folder / "run.json").exists()

    # --- reading -------------------------------------------------------------------------------------------

    @property
    def header(self) -> RunHeader:
        header, own = _parse(RunHeader, self.folder / "run.json"), self.folder / PRIVATE_PLAN
        return replace(header, plan=_parse(dict[str, Any], own)) if own.exists() else header

    @cached_property
    def network(self) -> Network:
        """What the run trains."""
        return self.header.architecture.network()

    def tensor_checksums(self) -> dict[str, str]:
        """SHA-256 of the tensors on disk, as they were when they were written, by their names in the folder."""
        known = ((path, self.manifest(r).files.get(path.name)) for r in self.rounds() for path in self.files(r))
        return {path.relative_to(self.folder).as_posix(): checksum for path, checksum in known if checksum}

    def rounds(self) -> list[int]:
        """The whole rounds, in order; 0 is the initial state."""
        names = (path.name for path in self.folder.glob("rounds/[0-9]*"))  # somebody's copy 0001.bak is none of them
        return sorted(int(name) for name in names if name.isdecimal() and len(name) < 10 and name == f"{int(name):04d}")

    def manifest(self, server_round: int) -> RoundManifest:
        if server_round not in self._manifests:  # a whole round never changes
            path = self._round(server_round) / "manifest.json"
            self._manifests[server_round] = _parse(RoundManifest, path)
        return self._manifests[server_round]

    @property
    def result(self) -> dict[str, Any]:
        """How the trained models do on the test images, of a run that ended: `best_round`, `best` and `last`.

        Raises:
            BadInput: the run did not end, or its result is damaged.
        """
        found, path = _parse(dict[str, Any], self.folder / RESULT), self.folder / RESULT
        scored = (found.get("best"), found.get("last"))
        if not {"best_round", "best", "last"} <= set(found) or not all(s is None or is_utility(s) for s in scored):
            raise BadInput(f"{path} is damaged and cannot be read; delete it and run the same command again.")
        return found

    def seconds(self, server_round: int) -> float | None:
        """How long the round took, where that is still known: no result depends on it."""
        try:
            return _parse(dict[str, float], self._round(server_round) / "timing.json")["seconds"]
        except (BadInput, KeyError):
            return None

    def files(self, server_round: int) -> list[Path]:
        """What is on disk of a round."""
        return sorted(self._round(server_round).iterdir())

    def recorded(self, server_round: int) -> list[str]:
        """The clients whose update of this round was kept."""
        return [name for name, entry in self.manifest(server_round).clients.items() if entry.recorded]

    def best_round(self) -> int | None:
        """The round with the best mean validation accuracy, the first of equals."""
        scores = {r: self.manifest(r).validation_accuracy for r in self.rounds()}
        known = {r: score for r, score in scores.items() if score is not None}
        return max(known, key=lambda r: (known[r], -r)) if known else None

    def global_state(self, server_round: int) -> dict[str, Tensor]:
        """The global parameters and buffers after this round."""
        return self.tensors(server_round, "global.safetensors")

    def server_state(self, server_round: int) -> dict[str, Tensor]:
        files = self.manifest(server_round).files
        return self.tensors(server_round, "server.safetensors") if "server.safetensors" in files else {}

    def load(self, server_round: int, client: str) -> UpdateRecord:
        """One client's update of one round, next to what it started from."""
        if server_round not in self.rounds() or client not in self.recorded(server_round):
            kept = {r: names for r in self.rounds() if (names := self.recorded(r))}
            raise BadInput(f"{self.folder} has no record of {client} in round {server_round}; it has {_brief(kept)}.")
        header, entry = self.header, self.manifest(server_round).clients[client]
        buffers = set(header.buffers)
        before, after = self.global_state(server_round - 1), self.tensors(server_round, f"{client}.safetensors")
        state_before, buffers_before = split_state(before, buffers)
        state_after, buffers_after = split_state(after, buffers)
        return UpdateRecord(
            round=server_round,
            cohort=(client,),
            network=self.network,
            training=entry.training,
            state_before=state_before,
            state_after=state_after,
            buffers_before=buffers_before,
            buffers_after=buffers_after if buffers_after or not buffers else None,
            claim=entry.claim,
        )

    @property
    def _checksums(self) -> Checksums:
        return Checksums(self.folder)

    def _manifest_name(self, server_round: int) -> str:
        return f"rounds/{server_round:04d}/manifest.json"

    def tensors(self, server_round: int, name: str) -> dict[str, Tensor]:
        """What a file of a round holds, once its checksum is the manifest's."""
        path = self._round(server_round) / name
        expected = self.manifest(server_round).files.get(name)
        try:
            content = path.read_bytes()
        except OSError as problem:
            raise BadInput(f"{path} cannot be read ({problem.strerror}). {self._remedy(server_round)}") from problem
        if hashlib.sha256(content).hexdigest() != expected:
            raise BadInput(f"{path} is damaged: its checksum is not the manifest's. {self._remedy(server_round)}")
        try:
            return dict(sorted(load(content).items()))  # safetensors gives them in any order, FedAvgM minds it
        except SafetensorError as problem:  # a manifest can be forged along with its file
            raise BadInput(f"{path} is not a safetensors file: {problem}.") from problem

    def _remedy(self, server_round: int) -> str:
        """From where the run can be repeated: the last round before this one with all that is needed to go on."""
        for earlier in reversed([r for r in self.rounds() if r < server_round]):
            needed = {"global.safetensors", "server.safetensors"} & set(self.manifest(earlier).files)
            if all((self._round(earlier) / name).exists() for name in needed):
                return f"Delete the folders after rounds/{earlier:04d} and run the same command again."
        return f"Delete {self.folder} and run the same command again, from the start."

    def _round(self, server_round: int) -> Path:
        return self.folder / "rounds" / f"{server_round:04d}"

    def _part(self, server_round: int) -> Path:
        return self.folder / "rounds" / f".{server_round:04d}.part"


def _brief(kept: dict[int, list[str]]) -> str:
    if not kept:
        return "none"
    clients = sorted({name for names in kept.values() for name in names})
    return f"rounds {', '.join(map(str, kept))} of {', '.join(clients)}"


def _parse(kind: type[T], path: Path) -> T:
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except FileNotFoundError as problem:
        raise BadInput(f"{path} is missing: {path.parent} holds no whole record.") from problem
    except (ValidationError, Misconfigured, OSError) as problem:
        raise BadInput(f"{path} is damaged and cannot be read; delete it and run the same command again.") from problem
