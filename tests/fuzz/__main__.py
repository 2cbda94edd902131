"""`python -m tests.fuzz`: mutated inputs over all readers; ends with 1 if one was not answered as it should be.

An input is known by the seed and its number: `python -m tests.fuzz --seed 0 --only 1234 --keep DIR` does it again.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fluoroscope import process_tuning


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the number of the first input")
    parser.add_argument("--only", type=int, help="this input alone, with all that it prints")
    parser.add_argument("--target", help="inputs of this reader alone")
    parser.add_argument("--keep", type=Path, help="a folder for inputs that were not answered as they should be")
    asked = parser.parse_args()
    process_tuning.apply()
    import torch

    torch.set_num_threads(1)  # a process that is forked has one
    from tests.fuzz import fuzzing, materials, preload

    preload.everything()
    with tempfile.TemporaryDirectory(prefix="fluoroscope-fuzz-", dir=_in_memory()) as folder:
        good, scratch = Path(folder) / "good", Path(folder) / "scratch"
        for each in (good, scratch):
            each.mkdir()
        materials.make(good)
        if asked.only is not None:
            target, files = fuzzing.inputs(asked.seed, asked.only, good)
            _show(fuzzing.tried(target, asked.only, files, good, scratch), asked.keep, whole=True)
            return
        _run(asked, fuzzing.fuzz(asked.seed, asked.inputs, good, scratch, asked.start))


def _in_memory() -> str | None:
    """Where waiting for the disk costs nothing."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _run(asked, results) -> None:
    codes, per_target, bad, began = Counter(), Counter(), Counter(), time.monotonic()
    slowest, largest, done, said, spent = 0.0, 0, 0, 0, Counter()
    for found in results:
        done += found.inputs
        codes[found.ended.code] += found.inputs
        per_target[found.target.name] += found.inputs
        spent[found.target.name] += found.ended.seconds
        slowest, largest = max(slowest, found.ended.seconds), max(largest, found.ended.peak)
        if found.wrong:
            bad[f"{found.target.name}: {found.wrong}"] += 1
            _show(found, asked.keep, whole=bad[f"{found.target.name}: {found.wrong}"] <= 3)
        if done // 1000 > said:
            said = done // 1000
            print(f"{done} inputs, {time.monotonic() - began:.0f} s, {sum(bad.values())} wrong", flush=True)
    print(f"{done} inputs over {len(per_target)} readers in {time.monotonic() - began:.0f} s")
    print("exit codes: " + ", ".join(f"{code}: {n}" for code, n in sorted(codes.items())))
    print(f"slowest: {slowest:.1f} s of processors; largest: {largest / 2**30:.2f} GB")
    dearest = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in spent.most_common(5))
    print(f"{sum(spent.values()):.0f} s of processors, most of them: {dearest}")
    for what, count in bad.most_common():
        print(f"WRONG {count} x {what}")
    sys.exit(1 if bad else 0)


def _show(found, keep: Path | None, whole: bool) -> None:
    print(
        f"--- input {found.number}, {found.target.name}: {found.wrong or 'as it should be'} (code {found.ended.code})"
    )
    if whole:
        print("\n".join((found.ended.out[-300:] + found.ended.err).splitlines()[-12:])[-2500:])
        print({name: content[:120] for name, content in found.files.items()}, flush=True)
    for name, content in found.files.items() if keep else ():
        path = keep / f"{found.number:06d}-{name.replace('/', '_')}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
