"""From a site's name to its client's, which is also the name of a file in the records."""

import re
from collections.abc import Iterable

from fluoroscope.errors import Misconfigured

_TAKEN = ("global", "server", "test", "auxiliary", "unused")
"""What lies beside the clients in the records and in the table of who holds what."""
_LONGEST = 64


def plain_name(site: str) -> str:
    """The name with letters, digits, `.`, `-` and `_` alone; other characters become hyphens."""
    return re.sub(r"[^\w.-]+", "-", site).strip("-.")[:_LONGEST]


def safe_name(site: str) -> str:
    """The plain name, once it is known that a client can have it.

    >>> safe_name("St. Mary's / Ward 3")
    'St.-Mary-s-Ward-3'

    Raises:
        Misconfigured: Nothing is left of it, or the records use the name for something else.
    """
    safe = plain_name(site)
    if not safe:
        raise Misconfigured(f"site {site!r} has no letter or digit to name a file by; rename it.")
    if safe.casefold() in _TAKEN:
        raise Misconfigured(f"a site cannot be called {site!r}: the records use that name; choose another.")
    return safe


def client_names(sites: Iterable[str]) -> dict[str, str]:
    """The client of each site, in the order in which the sites first occur; no two have the same file."""
    names: dict[str, str] = {}
    owners: dict[str, str] = {}
    for site in dict.fromkeys(sites):
        name = safe_name(site)
        other = owners.setdefault(name.casefold(), site)  # some file systems do not tell case apart
        if other != site:
            raise Misconfigured(f"sites {other!r} and {site!r} would both be the client {name!r}; rename one of them.")
        names[site] = name
    return names
