"""The guard on crafted and on honest models: misses, false alarms, seconds, `python -m benchmarks guard`.

A crafted model counts only if it leaks, measured on a batch by its maker's own reading. Each is judged with the agreed
network and the client's own images, and without anything agreed. Honest ones are judged with and without it too.
`GUARD_EVERY=7 GUARD_SEED=5 python -m benchmarks guard` takes every seventh of them, of another seed, and
`GUARD_PARTS=monai,plain` these parts alone.
"""

import os
import statistics
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import torch
from torch import Tensor, nn

from benchmarks._adaptive import CLASSES, deep, thresholds
from benchmarks._adaptive_calls import bends, fishing, names
from benchmarks._baselines import d_snr, improbable, leapt, off_course
from benchmarks._beside import beside
from benchmarks._combined import combined
from benchmarks._crafted import Case
from benchmarks._crafted_inside import crafted
from benchmarks._further import further
from benchmarks._held_out import held_out
from benchmarks._honest import grown, honest, noised, pruned, quantised
from benchmarks._hosts import hosts
from benchmarks._leaking import LITTLE, leaks
from benchmarks._monai import class_prior, lora_merged, monai, odd
from benchmarks._projected import projected
from fluoroscope.data import Request, load
from fluoroscope.defences.guard import Verdict, inspect
from fluoroscope.defences.guard.stand_ins import stand_ins
from fluoroscope.scores.intervals import wilson

SOURCES = {(1, 28): "phantom/chest", (3, 32): "phantom/fundus", (1, 32): "phantom/brain"}
SEED = int(os.environ.get("GUARD_SEED", "777"))
"""The guard's limits were mended on models of seed 777: another one gives models that nothing was set on."""
OWN = 64


def auxiliary() -> dict[tuple[int, int], Tensor]:
    """What the attacker sets its bins by, and what honest models are trained on."""
    return {
        (c, size): load(source, Request(size=size, channels=c, images=160)).batch.images
        for (c, size), source in SOURCES.items()
    }


def every() -> int:
    return int(os.environ.get("GUARD_EVERY", "1"))


def fitting(model: nn.Module, aux: dict[tuple[int, int], Tensor]) -> Tensor | None:
    """Images that the model takes."""
    for images in aux.values():
        try:
            with torch.no_grad():
                model.train()(images[:2])
        except (RuntimeError, ValueError, AssertionError):
            continue
        return images
    return None


def adaptive(aux: dict[tuple[int, int], Tensor]) -> Iterator[Case]:
    for number, images in enumerate(aux.values()):
        rng = torch.Generator().manual_seed(SEED + number)
        for family in (thresholds, deep, bends, names, fishing):
            yield from family(images[:96], rng)


def put_aside(aux: dict[tuple[int, int], Tensor]) -> Iterator[Case]:
    for number, images in enumerate(aux.values()):
        yield from held_out(images[:96], torch.Generator().manual_seed(SEED + number))


def elsewhere(aux: dict[tuple[int, int], Tensor]) -> Iterator[Case]:
    for number, images in enumerate(aux.values()):
        yield from hosts(images[:96], torch.Generator().manual_seed(SEED + number))


def secretly(aux: dict[tuple[int, int], Tensor]) -> Iterator[Case]:
    for number, images in enumerate(aux.values()):
        rng = torch.Generator().manual_seed(SEED + number)
        labels = torch.randint(CLASSES, (96,), generator=rng)
        yield from combined(images[:96], labels, rng)


def once_more(aux: dict[tuple[int, int], Tensor]) -> Iterator[Case]:
    for number, images in enumerate(aux.values()):
        torch.manual_seed(SEED + number)
        yield from further(images[:96], torch.Generator().manual_seed(SEED + number))


def beyond(aux: dict[tuple[int, int], Tensor]) -> Iterator[Case]:
    for number, images in enumerate(aux.values()):
        torch.manual_seed(SEED + number)
        yield from projected(images[:96], torch.Generator().manual_seed(SEED + number))


def hidden(aux: dict[tuple[int, int], Tensor]) -> Iterator[Case]:
    for number, images in enumerate(aux.values()):
        torch.manual_seed(SEED + number)
        yield from beside(images[:96], torch.Generator().manual_seed(SEED + number))


def misses(name: str, cases: Iterable[Case], aux: dict[tuple[int, int], Tensor]) -> None:
    """Print who got through, of those that leak."""
    counts, through, reasons, little, seconds = Counter(), defaultdict(Counter), Counter(), Counter(), []
    baselines: Counter[str] = Counter()
    for case in islice(cases, 0, None, every()):
        images = fitting(case.model, aux)
        if images is None:
            counts["not run"] += 1
            continue
        own = images[-OWN:]
        labels = torch.randint(CLASSES, (OWN,), generator=torch.Generator().manual_seed(1))
        how = leaks(case, own, labels)
        counts[how or "leaks nothing"] += 1
        if not how:
            continue
        if how == LITTLE:
            passed = not inspect(case.model.state_dict(), case.agreed, own).refused
            little[case.kind] += passed
            continue
        ways: dict[str, Verdict] = {
            "agreed": inspect(case.model.state_dict(), case.agreed, own),
            "alone": inspect(case.model, None, own),
        }
        baselines.update(flagged(case.model, case.agreed, own))
        for way, verdict in ways.items():
            seconds.append(verdict.seconds)
            if not verdict.refused:
                through[way][case.kind if verdict.ran else f"{case.kind} (not judged: {verdict.summary[-120:]})"] += 1
        reasons.update({reason.check for reason in ways["agreed"].reasons if reason.severity == "refuse"})
    leaking = sum(count for how, count in counts.items() if how not in ("leaks nothing", "not run", LITTLE))
    print(f"{name}: {sum(counts.values())} models, {leaking} leak ({dict(counts)})")
    for way in ("agreed", "alone"):
        interval = wilson(through[way].total(), leaking) if leaking else None
        print(f"  {way}: misses {through[way].total()} of {leaking} {_between(interval)} {dict(through[way]) or ''}")
    print(f"  {LITTLE}, and not refused: {little.total()} of {counts[LITTLE]} {dict(+little) or ''}")
    print(f"  reasons: {', '.join(f'{k} {n}' for k, n in reasons.most_common())}")
    for name in BASELINES:
        print(f"  {name} (baseline): misses {leaking - baselines[name]} of {leaking}")
    print(f"  seconds: median {statistics.median(seconds or [0]):.2f}, largest {max(seconds or [0]):.2f}", flush=True)


BASELINES = ("D-SNR above 1", "weights improbable", "loss or gradient off its course", "an array leapt")


def flagged(model: nn.Module, agreed: nn.Module, images: Tensor) -> list[str]:
    """Which of the published detectors would refuse it."""
    each = (
        d_snr(model, images[:16]) > 1,
        improbable(model),
        agreed is not model and off_course(model, agreed, images),
        agreed is not model and leapt(model, agreed),
    )
    return [name for name, refused in zip(BASELINES, each, strict=True) if refused]


def hospitals(aux: dict[tuple[int, int], Tensor]) -> Iterator[tuple[str, nn.Module, Tensor]]:
    """MONAI's networks and odd ones: fresh, with a class prior, merged adapters, noised, pruned, quantised."""
    for name, maker, shape in [*monai(), *odd()]:
        torch.manual_seed(SEED)
        try:
            model = maker()
        except Exception as problem:  # a version of MONAI that builds it otherwise
            print(f"  {name} cannot be built: {problem}")
            continue
        images = stand_ins(shape, OWN)
        rng = torch.Generator().manual_seed(SEED)
        yield f"monai/{name}", model, images
        yield f"monai/{name}, dp", noised(model, 0.01, 1), images
        yield f"monai/{name}, quantised", quantised(model, 8), images
        yield f"monai/{name}, pruned", pruned(model, 0.5), images
        if any(isinstance(m, nn.Linear) for m in model.modules()):
            yield f"monai/{name}, adapters", lora_merged(model, 4, rng), images
        if classifies(model, images):
            for rare in (0.1, 0.01, 0.001):
                yield f"monai/{name}, class prior {rare}", class_prior(model, rare), images


def classifies(model: nn.Module, images: Tensor) -> bool:
    """Whether its last dense layer is a head."""
    with torch.no_grad():
        out = model.train()(images[:4])
    last = [m for m in model.modules() if isinstance(m, nn.Linear) and m.bias is not None]
    return isinstance(out, Tensor) and out.ndim == 2 and bool(last) and last[-1].out_features == out.shape[1] > 1


def others(aux: dict[tuple[int, int], Tensor]) -> Iterator[tuple[str, nn.Module, Tensor]]:
    for case in honest(aux, SEED):
        images = fitting(case.model, aux)
        if images is not None:
            yield case.kind, case.model, images[-OWN:]


def alarms(name: str, models: Iterable[tuple[str, nn.Module, Tensor]]) -> None:
    """Print who was refused wrongly."""
    wrong, count, unrun, seconds, baselines = defaultdict(Counter), 0, 0, [], Counter()
    for kind, model, images in islice(models, 0, None, every()):
        count += 1
        alone = inspect(model, None, images)
        agreed = inspect(model.state_dict(), model, images)
        baselines.update(flagged(model, model, images))
        for way, verdict in (("alone", alone), ("agreed", agreed)):
            seconds.append(verdict.seconds)
            if verdict.refused:
                checks = {r.check for r in verdict.reasons if r.severity == "refuse"}
                wrong[way][f"{kind}: {', '.join(sorted(checks))}"] += 1
        unrun += not alone.ran
    print(f"{name}: {count} models, {unrun} could not be run")
    for way in ("agreed", "alone"):
        total = wrong[way].total()
        print(f"  {way}: false alarms {total} of {count} {_between(wilson(total, count))} {dict(wrong[way]) or ''}")
    for name in BASELINES[:2]:  # the others compare a model with itself here
        print(f"  {name} (baseline): false alarms {baselines[name]} of {count}")
    print(f"  seconds: median {statistics.median(seconds):.2f}, largest {max(seconds):.2f}", flush=True)


def beside_start(aux: dict[tuple[int, int], Tensor]) -> None:
    """Print which trained models were refused, where what was agreed is the network before it was trained."""
    wrong, count, baselines = Counter(), 0, Counter()
    for case in islice(grown(aux, SEED), 0, None, every()):
        images = fitting(case.model, aux)
        if images is None:
            continue
        count += 1
        wrong[case.kind] += inspect(case.model.state_dict(), case.agreed, images[-OWN:]).refused
        baselines.update(flagged(case.model, case.agreed, images[-OWN:]))
    refused = wrong.total()
    print(f"trained, start agreed: false alarms {refused} of {count} {_between(wilson(refused, count))} {dict(+wrong)}")
    for name in BASELINES:
        print(f"  {name} (baseline): false alarms {baselines[name]} of {count}", flush=True)


def _between(interval: object) -> str:
    return "" if interval is None else f"({interval.low:.1%} to {interval.high:.1%})"


def times() -> None:
    """The largest networks of a hospital, on images of their size."""
    from monai.networks import nets

    def normed() -> nn.Module:
        model = nets.DenseNet121(2, 3, 14)
        for module in model.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.utils.parametrizations.weight_norm(module)
        return model

    for name, maker, shape, bar in (
        ("DenseNet121", lambda: nets.DenseNet121(2, 3, 14), (3, 224, 224), 2),
        ("DenseNet121, weight-normed", normed, (3, 224, 224), 2),
        (
            "U-Net in 3-D",
            lambda: nets.UNet(3, 1, 2, (16, 32, 64, 128), (2, 2, 2), num_res_units=2),
            (1, 64, 64, 64),
            10,
        ),
        ("SegResNet in 3-D", lambda: nets.SegResNet(3, 16, 1, 2), (1, 64, 64, 64), 10),
    ):
        model, images = maker(), torch.rand(16, *shape)
        inspect(model, None, images)
        start, cpu = time.perf_counter(), time.process_time()
        inspect(model, None, images)
        print(
            f"{name}: {time.perf_counter() - start:.1f} s, {time.process_time() - cpu:.1f} s of CPU (bar {bar})",
            flush=True,
        )


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    aux = auxiliary()
    torch.manual_seed(SEED)  # of layers that are left as torch makes them
    parts: dict[str, Callable[[], object]] = {
        "times": times,
        "aside": lambda: misses("put aside", put_aside(aux), aux),
        "places": lambda: misses("in other places", elsewhere(aux), aux),
        "combined": lambda: misses("in secret combinations", secretly(aux), aux),
        "further": lambda: misses("of a second round", once_more(aux), aux),
        "projected": lambda: misses("read beyond what follows", beyond(aux), aux),
        "beside": lambda: misses("hidden by what stands beside", hidden(aux), aux),
        "adaptive": lambda: misses("adaptive", adaptive(aux), aux),
        "published": lambda: misses("published and disguised", crafted(aux, SEED), aux),
        "monai": lambda: alarms("MONAI and odd parts", hospitals(aux)),
        "plain": lambda: alarms("plain and registered", others(aux)),
        "grown": lambda: beside_start(aux),
    }
    for name in os.environ.get("GUARD_PARTS", ",".join(parts)).split(","):
        parts[name]()


if __name__ == "__main__":
    main()
