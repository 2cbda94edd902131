"""Prints the licence of every package of the environment: `make licences`."""

import sys
from collections import Counter

from packages import NOT_STATED, Environment


def table(environment: Environment) -> list[str]:
    """A line per package, then how often each licence is found."""
    packages = environment.packages
    rows = [
        (each.name, each.version, "yes" if name in environment.at_run_time else "no", each.licence)
        for name, each in packages.items()
    ]
    head = ("package", "version", "at run time", "licence, by its own metadata")
    wide = [*(max(len(row[i]) for row in [head, *rows]) for i in range(3)), 0]
    lines = ["  ".join(word.ljust(width) for word, width in zip(row, wide, strict=True)) for row in [head, *rows]]
    counts = Counter(each.licence for each in packages.values()).most_common()
    lines += ["", f"{len(packages)} packages, {len(environment.at_run_time)} at run time:"]
    lines += [f"{count:4d}  {licence}" for licence, count in counts]
    if silent := [each.name for each in packages.values() if each.licence == NOT_STATED]:
        lines += ["", f"To be asked of their authors: {', '.join(silent)}."]
    return lines


if __name__ == "__main__":
    sys.stdout.write("\n".join(table(Environment.read())) + "\n")
