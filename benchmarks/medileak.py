"""MediLeak on sets that nothing was set on, `python -m benchmarks medileak`: what it recovers, and how fast it decodes.

Phantoms, sets that are nothing like them (`_unlike.py`), and those in `../shared/data` where they are; P3's CNN at
28 px, five clients, one local step but for the mini-batches. The time is the decoder's own, in CPU seconds.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks._unlike import crops, digits, ellipses
from fluoroscope.attacks.imprint import Crafted, MediLeak, Recovered, Subspace
from fluoroscope.data import Request, load
from fluoroscope.errors import Misconfigured
from fluoroscope.models import Architecture
from fluoroscope.scenarios.malicious_round import Aggregation, RecoveryResult, cast, malicious_round, participants_of
from fluoroscope.types import ImageSet, LocalTraining, Sgd, State

DATA = Path(__file__).parents[1] / "../shared/data"
SETS = {
    "phantoms": "phantom/chest",
    "PneumoniaMNIST": f"medmnist:{DATA}/pneumoniamnist.npz",
    "cxr-nih-64": f"folder:{DATA}/cxr-nih-64",
    "cxr-covid-224": f"folder:{DATA}/cxr-covid-224",
    "fundus-128": f"folder:{DATA}/fundus-128",
}
UNLIKE = {"digits": digits, "crops": crops, "ellipses": ellipses}
IMAGES = (100, 300, 500)
WAYS: tuple[tuple[str, float, bool, Aggregation], ...] = (
    ("SecAgg+, k = 2m", 2.0, False, "secagg+"),
    ("exact sum, k = 1.5m", 1.5, False, "plain sum"),
    ("exact sum, k = 2m, five mini-batches", 2.0, True, "plain sum"),
    ("SecAgg+, k = 2m, five mini-batches", 2.0, True, "secagg+"),
)
SEED = 100


class Timed:
    """The decoder, with a watch: the longest that it took."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, crafted: Crafted, update: State) -> Recovered:
        start = time.process_time()
        found = Subspace()(crafted, update)
        self.seconds = max(self.seconds, time.process_time() - start)
        return found


def played(
    images: ImageSet, m: int, share: float, mini: bool, aggregation: Aggregation, decoder: Timed
) -> RecoveryResult:
    held = cast(images, 5, m, SEED)
    everyone = participants_of(held.clients, lambda n: LocalTraining(Sgd(0.01), n, -(-n // 5) if mini else n))
    agreed = Architecture("p3-cnn", images.channels, len(images.classes), 28)
    attack = MediLeak(round(share * m), steady=mini)
    return malicious_round(agreed, None, everyone, 0, held.auxiliary, attack, decoder, aggregation, SEED)


def sets() -> Iterator[tuple[str, ImageSet]]:
    for name, source in SETS.items():
        if not source.startswith("phantom") and not Path(source.split(":", 1)[1]).exists():
            print(f"{name}: not here")
            continue
        phantom = source.startswith("phantom")
        yield name, load(source, Request(size=28, images=3000 if phantom else None, seed=SEED))
    for name, made in UNLIKE.items():
        yield name, made()


def main() -> None:
    slowest = 0.0
    for name, images in sets():
        for way, share, mini, aggregation in WAYS:
            for m in IMAGES:
                decoder = Timed()
                try:
                    result = played(images, m, share, mini, aggregation, decoder)
                except Misconfigured:  # too few images for such a victim
                    continue
                slowest = max(slowest, decoder.seconds)
                print(
                    f"{name}, {m} images, {way}: rate {result.score.rate.mean:.3f} (foreseen {result.foreseen:.3f}), "
                    f"{result.wrong} wrong, {result.sure_wrong} of them sure; {decoder.seconds:.2f} s",
                    flush=True,
                )
    print(f"slowest decoding {slowest:.1f} s of CPU (bar 3 for 500 images)")


if __name__ == "__main__":
    main()
