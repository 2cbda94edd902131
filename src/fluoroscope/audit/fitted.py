"""A preset's text, fitted to images that were seen: their size, their channels, and who could hold them."""

import re

from fluoroscope.audit.presets import EQUAL, partitioned, quoted, with_value, without
from fluoroscope.data.site_names import plain_name
from fluoroscope.data.survey import Survey

MOST_SIDE = 64
"""Pixels a side that a first audit can afford: attacks take longer with every pixel."""
_LEAST_SIDE = 28
_PER_CLIENT = 25
"""Patients that a client should have where nobody says how many clients there are."""
_MOST_USED = 0.95
"""Of a class's images: a patient is in one place only, so not every split comes out even."""

_BY_SITE = """\
[partition]
name = "sites"               # every site is one client, with its own images
auxiliary = 0.1              # of every site's images: the attackers' prior

"""
_MADE_UP = """\
[partition]
name = "counts"              # made up, since nothing says who holds what: write your own, a column for each class
train = [
{rows}
]
validation = {validation:<15} # images of each hospital
test = {test}
auxiliary = {auxiliary:<16} # images of the same kind that anybody may have: the attackers' prior

"""


def fitted(text: str, seen: Survey, clients: int | None = None, keep_partition: bool = False) -> str:
    """The text of a plan, for the images that were seen.

    Args:
        text: of a preset.
        seen: what lies there.
        clients: hospitals with equal shares, where somebody knows better than the images.
        keep_partition: whether the text's own stays where neither sites nor `clients` say another.
    """
    text = with_value(text, "size", f"{proposed_side(seen)}", _why_this_size(seen))
    if seen.channels == 3:
        text = _after_size(text, "channels = 3                 # colour")
    if seen.sites and clients is None:
        smallest = min(seen.sites, key=lambda site: seen.sites[site])
        text = _looking_at(partitioned(text, _BY_SITE), plain_name(smallest), "the smallest site")
        text = text if len(seen.sites) > 2 else _without_curious_client(text)
        return _with_tables(text, seen) if seen.tables else text
    if seen.tables:
        text = _after_size(text, 'folders = "sites"            # what the subfolders are')
    if keep_partition and clients is None:
        return text
    if clients is None and (made := _made_up(seen)):
        return _looking_at(partitioned(text, made), "client-5", "the smallest")
    text = partitioned(text, EQUAL.format(clients=clients or proposed_clients(seen)))
    text = text if clients != 2 else _without_curious_client(text)
    return _looking_at(text, "client-1", "all are alike")


def proposed_side(seen: Survey) -> int:
    """As the smallest image has it, within reason."""
    return min(max(seen.sides[0], _LEAST_SIDE), MOST_SIDE)


def proposed_clients(seen: Survey) -> int:
    """Four, or as many as have patients enough, and three at least: a curious client needs two others."""
    return max(3, min(4, seen.patients // _PER_CLIENT))


def _why_this_size(seen: Survey) -> str:
    stored = f"{seen.sides[0]}" if len(seen.sides) == 1 else f"{seen.sides[0]} to {seen.sides[-1]}"
    if seen.sides[0] > MOST_SIDE:
        return f"pixels a side; the images have {stored}, and larger ones take longer to attack"
    return (
        "pixels a side, as the images have them" if stored.isdecimal() else f"pixels a side; the images have {stored}"
    )


def _made_up(seen: Survey) -> str:
    """Five hospitals as those of the quick preset: two alike, an odd one, a small one, a single patient. Empty where
    there are too few images for them."""
    counts = list(seen.classes.values())
    rarest, many = min(counts), len(counts)
    usual = [min(80, count // 10) for count in counts]
    commonest = counts.index(max(counts))
    odd = [2 * usual[i] if i == commonest else max(1, usual[i] // 20) for i in range(many)]
    small = [max(1, min(16 // many, count // 10)) for count in counts]
    rows = [usual, usual, odd, small, [int(i == 0) for i in range(many)]]
    validation, test, auxiliary = max(2, min(20, rarest // 30)), min(100, rarest // 6), min(60, rarest // 6)
    for i, count in enumerate(counts):
        validated = sum(-(-validation * row[i] // sum(row)) for row in rows if sum(row))
        if not usual[i] or sum(row[i] for row in rows) + validated + test + auxiliary > _MOST_USED * count:
            return ""
    said = {2: "  # the odd one: nearly all of its patients have the same", 4: "  # a single patient"}
    lines = [f"    [{', '.join(map(str, row))}],{said.get(i, '')}" for i, row in enumerate(rows)]
    return _MADE_UP.format(rows="\n".join(lines), validation=validation, test=many * test, auxiliary=many * auxiliary)


def _looking_at(text: str, client: str, why: str) -> str:
    """With the client whom the curious server looks at: it is the first thing that takes time."""
    line = f"clients = [{quoted(client)}]"
    said = f'{line:<28} # whom it looks at: {why}; "all", or leave it out for a sample of four\n'
    return re.sub(r"(?m)^(attacks = .*\n)", lambda found: found[1] + said, text, count=1)


def _without_curious_client(text: str) -> str:
    """It needs two clients beside the one that it looks for."""
    return text.replace(', "curious-client"]', ']  # and "curious-client" where there are three clients', 1)


def _with_tables(text: str, seen: Survey) -> str:
    """With a source for each site in the place of one for all."""
    tables = "".join(
        f"\n[[data.site]]\nname = {quoted(site.name)}\nsource = {quoted(site.source)}\n" for site in seen.tables
    )
    text = without(text, "source")
    return re.sub(r"(?ms)^(\[data\]\n.*?)\n(?=\[)", lambda table: f"{table[1]}{tables}\n", text, count=1)


def _after_size(text: str, line: str) -> str:
    return re.sub(r"(?m)^(size = .*\n)", lambda found: f"{found[1]}{line}\n", text, count=1)
