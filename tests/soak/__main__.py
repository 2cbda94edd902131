"""`python -m tests.soak`: kill -9 at random file operations of every command; ends with 1 if something was lost."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from fluoroscope import process_tuning
from fluoroscope.scenarios import isolation


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", action="append", help="of these alone")
    parser.add_argument("--isolated", action="store_true", help="attacks in processes of their own, as users have them")
    asked = parser.parse_args()
    process_tuning.apply()
    if not asked.isolated:  # they take seconds to start; before anybody has imported the name
        isolation.run_isolated = _here
    import torch

    torch.set_num_threads(1)  # a process that is forked has one
    from tests.fuzz import preload

    preload.everything()
    from tests.soak import commands, soaking

    commands.only_ridge()
    chosen = [each for each in commands.COMMANDS if not asked.command or each.name in asked.command]
    shares, wrong, kills = sum(each.share for each in chosen), 0, 0
    with tempfile.TemporaryDirectory(prefix="fluoroscope-soak-") as folder:
        for each in chosen:
            began, count = time.monotonic(), 0
            for found in soaking.soak(
                each, round(asked.kills * each.share / shares), asked.seed, Path(folder) / each.name
            ):
                count += len(found.kills)
                for what in found.wrong:
                    wrong += 1
                    print(f"WRONG {each.name}, killed at {[(k.at, round(k.delay, 4)) for k in found.kills]}: {what}")
            kills += count
            print(f"{each.name}: {count} kills, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{kills} kills, {wrong} wrong")
    sys.exit(1 if wrong else 0)


def _here(attack, observations, rng, on_iteration=None, checkpoint=None, seconds=None):
    """An attack in this process: the same guesses (tests/scenarios/test_isolation.py)."""
    told = () if on_iteration is None else (on_iteration,)
    return attack.run(observations, rng, *told, **({} if checkpoint is None else {"checkpoint": checkpoint}))


if __name__ == "__main__":
    main()
