"""Seeded mutations: what a disk, a transfer or somebody hostile makes of a file that was good.

Each takes the good content and a generator, and gives another content. Files with a structure are also changed inside
it, so that readers behind the first check are reached: a value of a JSON tree, a line of TOML, a member of an archive,
the header of a safetensors file.
"""

import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

from tests.fuzz.hostile_values import NUMBERS, TEXTS, VALUES, WORDS

Mutation = Callable[[bytes, random.Random], bytes]


def flipped(content: bytes, draw: random.Random) -> bytes:
    """A few bits are others."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 8, 64)) if changed else 0):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def at_the_start(content: bytes, draw: random.Random) -> bytes:
    """Bytes of the header are others: there are sizes, types and offsets."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 4)) if changed else 0):
        changed[draw.randrange(min(len(changed), draw.choice((8, 64, 512))))] = draw.choice((0, 1, 127, 128, 255))
    return bytes(changed)


def cut(content: bytes, draw: random.Random) -> bytes:
    """The file ends early, begins late, or is empty."""
    place = draw.randrange(len(content) + 1)
    return draw.choice((content[:place], content[:place], content[place:], b""))


def spliced(content: bytes, draw: random.Random) -> bytes:
    """A piece stands twice, elsewhere or not at all."""
    a, b, c = sorted(draw.randrange(len(content) + 1) for _ in range(3))
    return draw.choice(
        (
            content[:b] + content[a:b] + content[b:],
            content[:a] + content[b:c] + content[a:b] + content[c:],
            content[:a] + content[b:],
        )
    )


def hostile_words(content: bytes, draw: random.Random) -> bytes:
    """A word that breaks parsers stands somewhere in it."""
    a, b = sorted((draw.randrange(len(content) + 1), draw.randrange(len(content) + 1)))
    return content[:a] + draw.choice(WORDS) + content[draw.choice((a, b)) :]


def large_numbers(content: bytes, draw: random.Random) -> bytes:
    """Four or eight bytes are a number that is too large, or negative."""
    number = draw.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1, 10**12))
    wide = number > 2**32 - 1 or draw.random() < 0.5
    packed = struct.pack(draw.choice("<>") + ("Q" if wide else "I"), number)
    place = draw.randrange(max(1, min(len(content), draw.choice((64, 512, 10**9)))))
    return content[:place] + packed + content[place + len(packed) :]


BYTES: tuple[Mutation, ...] = (flipped, at_the_start, cut, spliced, hostile_words, large_numbers)


def changed_tree(value: Any, draw: random.Random) -> Any:
    """The same tree with one of its values, keys or tables changed."""
    places = list(_places(value, ()))
    path = draw.choice(places)
    how = draw.randrange(6)

    def change(found: Any) -> Any:
        if how == 0 and isinstance(found, dict) and found:  # a key is gone, renamed, or more
            key = draw.choice(list(found))
            return draw.choice(
                (
                    {k: v for k, v in found.items() if k != key},
                    {(draw.choice(TEXTS) if k == key else k): v for k, v in found.items()},
                    {**found, draw.choice(TEXTS): draw.choice(VALUES)},
                )
            )
        if how == 1 and isinstance(found, list):
            return draw.choice((found[::-1], found + found, found[:-1], [found], [*found, draw.choice(VALUES)]))
        if how == 2:  # nested too deep
            for _ in range(draw.choice((3, 50, 500))):
                found = [found] if draw.random() < 0.5 else {"a": found}
            return found
        if how == 3 and isinstance(found, int | float) and not isinstance(found, bool):
            return draw.choice((-found, found + 1, found * 1000, found * 10**12, str(found), [found], float(found)))
        if how == 4:  # what stands elsewhere in it
            return _at(value, draw.choice(places))
        return draw.choice(VALUES)

    return _with(value, path, change)


def _places(value: Any, path: tuple[Any, ...]) -> Any:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from _places(item, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _with(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(value)
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _with(value[path[0]], path[1:], change)
    return copy


def json_tree(content: bytes, draw: random.Random) -> bytes:
    """JSON whose tree is another."""
    value = json.loads(content)
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        value = changed_tree(value, draw)
    return json.dumps(value).encode()


def json_lines(content: bytes, draw: random.Random) -> bytes:
    """One line of several is another, is gone or stands twice."""
    lines = content.splitlines()
    place = draw.randrange(len(lines))
    changed = draw.choice(([json_tree(lines[place], draw)], [], [lines[place]] * 2, [b""], [lines[place][:-1]]))
    return b"\n".join([*lines[:place], *changed, *lines[place + 1 :]]) + draw.choice((b"\n", b""))


def first_line(content: bytes, draw: random.Random) -> bytes:
    """The JSON before what is counted in it."""
    lines = content.split(b"\n")
    place = draw.randrange(max(1, sum(line.startswith(b"{") for line in lines[:2])))
    return b"\n".join([*lines[:place], json_tree(lines[place], draw), *lines[place + 1 :]])


def toml_lines(content: bytes, draw: random.Random) -> bytes:
    """TOML with one value, key or table changed: values are those that JSON and TOML write alike."""
    lines = content.decode().splitlines()
    for _ in range(draw.choice((1, 1, 2))):
        place = draw.randrange(len(lines))
        key, equals, said = lines[place].partition("=")
        value = draw.choice(VALUES)
        written = "nan" if value is None else _toml(value)
        lines[place] = draw.choice(
            (
                f"{key}= {written}" if equals else lines[place],
                f"{key}= {written}" if equals else lines[place],
                f"{key}= [{said}]" if equals else f"[{lines[place]}]",
                f"{key}= {'[' * 400}{']' * 400}" if equals else "",
                f"{lines[place]}\n{_toml(draw.choice(TEXTS))} = {written}",
                f"{lines[place]}\n{lines[place]}",
                "",
                f"[{draw.choice(('data', 'model', 'training', 'site', 'x', 'a.b'))}]\n{lines[place]}",
                lines[draw.randrange(len(lines))],
            )
        )
    return "\n".join(lines).encode(errors="surrogatepass")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return "nan" if value is None else json.dumps(value)


def table_cells(content: bytes, draw: random.Random) -> bytes:
    """CSV with one cell, or one row, of its own."""
    rows = [line.split(",") for line in content.decode().splitlines()]
    row = draw.choice(rows)
    row[draw.randrange(len(row))] = draw.choice((draw.choice(TEXTS), '"', '"a,b', str(draw.choice(NUMBERS))))
    if draw.random() < 0.2:
        row.append("more")
    return "\n".join(",".join(row) for row in rows).encode(errors="surrogatepass")


def safetensors_header(content: bytes, draw: random.Random) -> bytes:
    """The header's tree is another, and its length says so."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.dumps(changed_tree(json.loads(content[8 : 8 + size]), draw)).encode()
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


def archive_member(content: bytes, draw: random.Random) -> bytes:
    """One member of a zip archive is another, with a checksum that is right; or its name, or there are more."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice(list(members))
    how = draw.randrange(6)
    if how == 0:
        members[draw.choice(TEXTS)[:1000].replace("\ud800", "?") or "x"] = members.pop(name)
    elif how == 1:
        members[draw.choice(("code/a.py", "constants.pkl", "x.npy", "data/99"))] = members[name]
    elif how == 2:
        members[name] = bytes(2**24)  # 16 MB of zeros in 16 kB
    else:
        members[name] = draw.choice(BYTES)(members[name], draw)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for each, data in members.items():
            archive.writestr(each, data)
    return written.getvalue()


def gzipped(content: bytes, draw: random.Random) -> bytes:
    """What is compressed is another, compressed again."""
    import gzip

    return gzip.compress(draw.choice(BYTES)(gzip.decompress(content), draw), 1)


def png_chunk(content: bytes, draw: random.Random) -> bytes:
    """One chunk of a PNG is another, with a checksum that is right."""
    place, chunks = 8, []
    while place + 12 <= len(content):
        (size,) = struct.unpack(">I", content[place : place + 4])
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + size]))
        place += 12 + size
    which = draw.randrange(len(chunks))
    kind, data = chunks[which]
    chunks[which] = draw.choice(
        ((kind, draw.choice(BYTES)(data, draw)), (b"tEXt", b"a\0" + draw.choice(WORDS)[:9000]), (kind, b""))
    )
    if draw.random() < 0.2:
        chunks.insert(draw.randrange(len(chunks)), draw.choice(chunks))
    return content[:8] + b"".join(
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks
    )


INSIDE: dict[str, tuple[Mutation, ...]] = {
    ".json": (json_tree, json_tree, json_tree),
    ".jsonl": (json_lines, json_lines, json_lines),
    ".toml": (toml_lines, toml_lines, toml_lines, toml_lines),
    ".bin": (first_line, first_line),
    ".csv": (table_cells, table_cells),
    ".safetensors": (safetensors_header, safetensors_header),
    ".npz": (archive_member, archive_member),
    ".pt": (archive_member, archive_member),
    ".png": (png_chunk, png_chunk),
    ".nii.gz": (gzipped, gzipped),
}


def mutated(name: str, content: bytes, draw: random.Random) -> bytes:
    """Another content of the file of this name; by chance the same."""
    inside = next((mutations for end, mutations in INSIDE.items() if name.endswith(end)), ())
    for mutation in draw.sample((*BYTES, *inside, *inside), k=len(BYTES)):
        try:
            return mutation(content, draw)
        except (ValueError, LookupError, ArithmeticError, OSError, struct.error, zipfile.BadZipFile, RecursionError):
            continue  # it takes a good file, and this one was changed before
    return content
