"""What an audit of recorded updates is asked for, looked through before anything is attacked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fluoroscope.audit.updates.cells import RecordedLabelCounts, RecordedReconstruction, UpdateCell
from fluoroscope.audit.updates.told import Told, network_of
from fluoroscope.data import Request, load
from fluoroscope.data.multi_label import with_findings
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation.described import described_model, described_training
from fluoroscope.federation.settings import build_defences
from fluoroscope.findings import NO_DEFENCE
from fluoroscope.integrations.checkpoints import record_of_states
from fluoroscope.integrations.pairs import Updates, open_updates
from fluoroscope.integrations.recorded import RecordedUpdate
from fluoroscope.types import NO_CLAIM, ImageSet, LocalTraining, PrivacyClaim, Sgd
from fluoroscope.types.network import Shape

RECORDED = "as recorded"
"""The setting under which the updates of a federation with a defence were recorded."""
NamedDefence = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class AskedUpdates:
    """Every update with what is told about it, and the cells that follow."""

    folder: Path
    updates: tuple[Told, ...]
    """The first and the last round first, and in each the sites whose images are here."""
    about: Mapping[tuple[int, str], RecordedUpdate]
    """What the records say that can be read."""
    own_images: Mapping[str, ImageSet]
    """Of the sites that gave them."""
    defences: tuple[NamedDefence, ...]
    claim: PrivacyClaim
    model: str | None
    training: Mapping[str, Any]
    batch_size: int
    """Where a record does not say."""
    seconds: float
    budget_minutes: float
    seed: int

    @property
    def threats(self) -> tuple[str, ...]:
        return ("curious-server",)

    @property
    def own(self) -> str | None:
        return RECORDED if self.defences or self.claim != NO_CLAIM else None

    @property
    def labels(self) -> dict[str, tuple[dict[str, Any], ...]]:
        parts = tuple({"name": name, **settings} for name, settings in self.defences)
        return {NO_DEFENCE: (), **({self.own: parts} if self.own else {})}

    @property
    def synthetic(self) -> bool:
        clients = {told.client for told in self.updates}
        return clients == set(self.own_images) and all(each.synthetic for each in self.own_images.values())

    @property
    def cells(self) -> tuple[UpdateCell, ...]:
        label = self.own or NO_DEFENCE
        kinds = (RecordedReconstruction, RecordedLabelCounts)
        return tuple(kind(label, told, self.seconds) for told in self.updates for kind in kinds)

    def plain(self) -> dict[str, Any]:
        """For findings: what was asked, with names of files and no path."""
        first = self.updates[0]
        return {
            "updates": self.folder.name,
            "model": self.model,
            "images": {told.client: without_path(told.images) for told in self.updates if told.images},
            "holds": {told.client: told.holds for told in self.updates if told.holds},
            "public": without_path(first.public),
            "classes": list(first.classes),
            "training": {key: value for key, value in self.training.items() if value is not None},
            "defences": [{"name": name, **settings} for name, settings in self.defences],
            "seconds": self.seconds,
            "budget_minutes": self.budget_minutes,
        }


def asked_updates(
    folder: Path,
    public: str,
    *,
    model: str | None,
    arguments: Mapping[str, Any] | None,
    images: Mapping[str, str] | None,
    holds: Mapping[str, int] | None,
    training: Mapping[str, Any] | None,
    classes: Sequence[str] | None,
    size: int | None,
    defences: Sequence[NamedDefence],
    seconds: float,
    budget_minutes: float,
    seed: int,
) -> AskedUpdates:
    """Look through all that is given; the first thing that is wrong is named. What is damaged fails in its own cell."""
    updates, sites, held = open_updates(folder), dict(images or {}), dict(holds or {})
    keys = [(number, client) for number in _order(updates.rounds()) for client in updates.clients(number)]
    clients = list(dict.fromkeys(client for _, client in keys))
    for site in (*sites, *held):
        if site not in clients:
            raise Misconfigured(f"{folder.name} has no update of {site!r}; it has some of {', '.join(clients)}.")
    settings, about = described_training(training or {}), _readable(updates, keys)
    if training and any(training.values()) and about and all(each.training for each in about.values()):
        raise Misconfigured(f"every update of {folder.name} says how it was trained: leave the training options out.")
    described = None if model is None else described_model(model, arguments or {})
    build_defences(list(defences))  # a wrong one is named now
    multi_label = any(each.training.loss.multi_label for each in about.values() if each.training)
    multi_label = multi_label or settings.loss == "multi-label"
    shape = _stored_shape(about) if described is None else None
    own = _loaded(sites, shape, size, multi_label, seed)
    names, shape = _images(own, public, classes, shape, size, multi_label, seed)
    common = Told(
        str(folder.absolute()),
        "",
        0,
        _absolute(public),
        shape,
        names,
        None if described is None else described.model_dump_json(),
        settings.model_dump_json(),
        defences=json.dumps([[name, dict(said)] for name, said in defences]),
    )
    told = [
        replace(common, client=c, round=r, images=_absolute(sites[c]) if c in sites else None, holds=held.get(c))
        for r, c in sorted(keys, key=lambda key: (_order(updates.rounds()).index(key[0]), key[1] not in sites))
    ]
    asked = AskedUpdates(
        folder, tuple(told), about, own, tuple(defences), _claim(about), model, training or {},
        settings.batch_size, seconds,
        budget_minutes, seed,
    )  # fmt: skip
    _check_network(asked, updates)
    return asked


def without_path(source: str) -> str:
    """`folder:/home/anna/nih` as `folder:nih`: where it lies is nobody's business."""
    kind, colon, rest = source.rpartition(":")
    return source if source.startswith("phantom/") else f"{kind}{colon}{Path(rest).name}"


def _order(rounds: Sequence[int]) -> list[int]:
    """The first, the last, then the others, the late ones first: by then a model knows most of its patients."""
    first, *others = rounds
    return [first, *sorted(others, reverse=True)]


def _readable(updates: Updates, keys: Sequence[tuple[int, str]]) -> dict[tuple[int, str], RecordedUpdate]:
    found = {}
    for number, client in keys:
        try:
            found[number, client] = updates.about(number, client)
        except BadInput:  # its own cells say so
            continue
    return found


def _stored_shape(about: Mapping[tuple[int, str], RecordedUpdate]) -> Shape:
    stored = next((each.network for each in about.values() if each.network is not None), None)
    if stored is None:
        raise Misconfigured("no record names its network: say what was trained with --model package.module:function.")
    return stored.network().input_shape


def _loaded(
    sites: Mapping[str, str], shape: Shape | None, size: int | None, multi_label: bool, seed: int
) -> dict[str, ImageSet]:
    found = {}
    for site, source in sites.items():
        images = load(source, _request(shape, size, seed))
        if not len(images):
            raise BadInput(f"there is no image in {source}.")
        found[site] = with_findings(images) if multi_label else images
    return found


def _images(
    own: Mapping[str, ImageSet],
    public: str,
    classes: Sequence[str] | None,
    shape: Shape | None,
    size: int | None,
    multi_label: bool,
    seed: int,
) -> tuple[tuple[str, ...], Shape]:
    """Names of classes and the shape of an image: as told, or those of all images that are here."""
    sets = list(own.values())
    phantoms = public.startswith("phantom/")
    if not sets or (classes is None and not phantoms):
        found = load(public, _request(shape or (sets[0].shape if sets else None), size, seed, 20 if phantoms else None))
        sets.append(with_findings(found) if multi_label else found)
    # Phantoms have an order of their own, which folders' names do not.
    order = list(sets[0].classes) if phantoms and len(sets) == 1 else sorted({c for each in sets for c in each.classes})
    return tuple(order if classes is None else classes), shape or sets[0].shape


def _request(shape: Shape | None, size: int | None, seed: int, images: int | None = None) -> Request:
    if shape is None:
        return Request(size, images=images, seed=seed)
    channels, height, width = shape
    return Request(max(height, width), channels if channels in (1, 3) else None, images=images, seed=seed)


def _absolute(source: str) -> str:
    """Workers may stand elsewhere."""
    kind, colon, rest = source.rpartition(":")
    path = Path(rest).expanduser()
    return f"{kind}{colon}{path.absolute()}" if path.exists() else source


def _claim(about: Mapping[tuple[int, str], RecordedUpdate]) -> PrivacyClaim:
    """What all records claim; where they differ, nothing that holds for all."""
    claims = list(dict.fromkeys(each.claim for each in about.values()))
    if len(claims) < 2:
        return claims[0] if claims else NO_CLAIM
    return PrivacyClaim(statement=f"the records make {len(claims)} different claims: none holds for all")


def _check_network(asked: AskedUpdates, updates: Updates) -> None:
    """A network that is none of these updates' is named before anything is attacked."""
    for told in asked.updates:
        about = asked.about.get((told.round, told.client))
        if about is None:
            continue
        network = network_of(told, about)
        try:
            before, after = updates.load(told.round, told.client)
        except BadInput:
            continue
        try:
            record_of_states(network, before, after, LocalTraining(Sgd(1.0), images=1, batch_size=1))
        except BadInput as problem:
            raise BadInput(f"{told.client} in round {told.round}: {problem}") from problem
        return
