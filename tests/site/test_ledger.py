"""The ledger: what is in it stays in it, and what was done to it is seen."""

import json
import os
import pickle
import random
import signal
import threading
from pathlib import Path

import pytest
from pydantic import ValidationError

from fluoroscope.errors import BadInput
from fluoroscope.site.entry import NOT_OURS, START, Judged, exchange_id, judged, short_name
from fluoroscope.site.ledger import Entry, Ledger, read_ledger, verify_ledger
from fluoroscope.site.reading import not_judged
from fluoroscope.site.reasons import sentence


def entry(number: int, **more: object) -> Entry:
    exchange = exchange_id("run", number, "out", str(number))
    return Entry(**{"exchange": exchange, "run": "run", "round": number, "direction": "out", "decision": "send"} | more)


def clock():
    return "2026-01-02T03:04:05Z"


@pytest.fixture
def five(tmp_path) -> Path:
    ledger = Ledger(tmp_path / "ledger.jsonl", clock)
    for number in range(1, 6):
        meter = (Judged(leak="reconstruction", value=number / 7, judged=True, attack="span", p_value=0.1),)
        ledger.append(entry(number, meter=meter, epsilon=number / 3))
    return ledger.path


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_lines_are_linked(five):
    found = read_ledger(five)
    assert [e.sequence for e in found] == [1, 2, 3, 4, 5]
    assert [e.previous for e in found] == [START, *(e.hash for e in found[:-1])]
    assert {e.time for e in found} == {clock()}
    assert verify_ledger(five).head == found[-1].hash
    assert five.stat().st_mode & 0o077 == 0


def test_the_hash_is_of_the_line_without_it(five):
    """By hand: SHA-256 over sorted, compact JSON."""
    import hashlib

    for line in lines(five):
        said = json.loads(line)
        own = said.pop("hash")
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest() == own


def test_the_same_exchange_is_one_line(five):
    ledger = Ledger(five, clock)
    before = five.read_bytes()
    again = ledger.append(entry(3, decision="withhold"))
    assert (again.sequence, again.decision) == (3, "send"), "the first decision stays"
    assert five.read_bytes() == before
    assert ledger.find(entry(3).exchange) == again
    assert ledger.find(entry(9).exchange) is None


def test_every_edited_byte_is_seen(five):
    """A property: whatever byte is changed, the ledger is broken, and no line after the change counts."""
    whole, draw = five.read_bytes(), random.Random(0)
    for _ in range(300):
        place = draw.randrange(len(whole) - 1)
        edited = bytearray(whole)
        edited[place] = draw.choice([byte for byte in range(1, 256) if byte != whole[place]])
        five.write_bytes(edited)
        found = verify_ledger(five)
        number = whole[:place].count(b"\n") + 1
        assert found.broken.startswith(f"line {number} ")
        assert len(found.entries) == number - 1


def test_a_removed_line_is_named(five):
    kept = lines(five)
    for number in range(1, 5):
        five.write_bytes(b"".join(kept[: number - 1] + kept[number:]))
        assert verify_ledger(five).broken.startswith(f"line {number} (number {number + 1} when it was written)")


def test_moved_and_doubled_lines_are_named(five):
    kept = lines(five)
    for order, number in (((0, 2, 1, 3, 4), 2), ((1, 0, 2, 3, 4), 1), ((0, 1, 1, 2, 3, 4), 3), ((0, 1, 2, 3, 4, 0), 6)):
        five.write_bytes(b"".join(kept[i] for i in order))
        assert verify_ledger(five).broken.startswith(f"line {number} ")


def test_an_edit_with_its_own_hash_breaks_the_next_link(five):
    kept = lines(five)
    changed = read_ledger(five)[2].model_copy(update={"decision": "withhold"})
    kept[2] = changed.model_copy(update={"hash": changed.own_hash()}).line()
    five.write_bytes(b"".join(kept))
    assert "line 4 " in verify_ledger(five).broken


def test_a_short_ledger_is_seen_by_a_noted_head(five):
    noted = verify_ledger(five).head
    five.write_bytes(b"".join(lines(five)[:3]))
    found = verify_ledger(five)
    assert not found.broken, "from the file alone it cannot be seen"
    assert found.since(noted) is None
    assert found.since(read_ledger(five)[1].hash[:12]) == 1


def test_half_a_line_is_an_interrupted_write(five):
    """Wherever the last line is torn, the others are whole, and the next append goes on from them."""
    whole = five.read_bytes()
    start = len(b"".join(lines(five)[:4]))
    for end in range(start + 1, len(whole) - 1, 5):
        five.write_bytes(whole[:end])
        found = verify_ledger(five)
        assert (found.broken, found.interrupted, len(found.entries)) == ("", True, 4)
    assert Ledger(five, clock).append(entry(6)).sequence == 5
    found = verify_ledger(five)
    assert (found.broken, found.interrupted, len(found.entries)) == ("", False, 5)


def test_a_line_that_lacks_its_end_alone_is_kept(five):
    """An editor, or a kill before the last byte: nothing that was decided is lost."""
    five.write_bytes(five.read_bytes()[:-1])
    other, ledger = Ledger(five, clock), Ledger(five, clock)
    assert other.find(entry(5).exchange) is not None
    assert len(verify_ledger(five).entries) == 5
    assert ledger.append(entry(6)).sequence == 6
    assert other.append(entry(7)).sequence == 7
    assert verify_ledger(five).broken == ""


def test_zeros_after_a_power_failure_are_an_interrupted_write(five):
    whole = five.read_bytes()
    for tail in (b"\0" * 200, b"\0" * 200 + b'"}\n'):
        five.write_bytes(whole + tail)
        found = verify_ledger(five)
        assert (found.broken, found.interrupted, len(found.entries)) == ("", True, 5)


def test_a_whole_last_line_that_is_wrong_was_edited(five):
    kept = lines(five)
    for wrong in (kept[4].replace(b'"send"', b'"warn"'), kept[4].replace(b'"send"', b'"warn"')[:-1], b"hello\n"):
        five.write_bytes(b"".join(kept[:4]) + wrong)
        assert verify_ledger(five).broken.startswith("line 5 ")
        with pytest.raises(BadInput, match="broken"):
            Ledger(five, clock).append(entry(9))


def test_a_ledger_that_shrinks_in_use_is_refused(five):
    ledger = Ledger(five, clock)
    ledger.append(entry(6))
    five.write_bytes(b"".join(lines(five)[:3]))
    with pytest.raises(BadInput, match="shortened or replaced"):
        ledger.append(entry(7))


def test_a_full_disk_leaves_the_file_as_it_was(five, monkeypatch):
    ledger, before = Ledger(five, clock), five.read_bytes()
    real = os.pwrite

    def half(handle, content, offset):
        real(handle, content[: len(content) // 2], offset)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        with pytest.raises(OSError, match="No space"):
            ledger.append(entry(6))
    assert five.read_bytes() == before
    assert ledger.append(entry(6)).sequence == 6


def test_threads_and_copies_share_one_chain(tmp_path):
    ledger = Ledger(tmp_path / "new" / "ledger.jsonl", clock)
    copy = pickle.loads(pickle.dumps(ledger))

    def half(held: Ledger, first: int) -> None:
        for number in range(first, 40, 2):
            held.append(entry(number))

    work = [threading.Thread(target=half, args=(held, first)) for held in (ledger, copy) for first in (0, 1)]
    for each in work:
        each.start()
    for each in work:
        each.join()
    assert sorted(e.round for e in read_ledger(ledger.path)) == list(range(40))


@pytest.mark.parametrize(
    "wrong",
    [
        {"run": "/data/anna.png"},
        {"run": "a" * 65},
        {"before": "anna"},
        {"image": [0.1, 0.2]},
        {"epsilon": float("nan")},
        {"meter": [{"leak": "reconstruction", "judged": True, "attack": "C:\\anna"}]},
        {"meter": [{"leak": "reconstruction", "judged": True, "sentence": "anna"}]},
        {"decision": "maybe"},
    ],
)
def test_an_entry_has_no_place_for_anything_else(wrong):
    with pytest.raises(ValidationError):
        entry(1, **wrong)


def test_reasons_in_other_words_are_not_kept():
    ours = sentence("failed", part="meter", error="RuntimeError")
    kept = entry(1, reasons=(ours, "cannot read /data/anna.png", "anna could not be judged at 12.")).reasons
    assert kept == (ours, NOT_OURS, NOT_OURS)
    assert "anna" not in sentence("failed", part="meter", error="/data/anna: no such file")
    assert short_name("/data/anna.png").startswith("sha256-")
    assert not any(each.judged for each in judged(not_judged("anna")))


def appending(path: Path, first: int, answers: int, pieces: int | None) -> None:
    """A process that appends without end, every message twice, and says which it has an answer for.

    Its lines are written in pieces; after so many of them it kills itself, in the middle of a line.
    """
    whole, written = os.pwrite, iter(range(1, 10**9))

    def piece(handle: int, content: bytes, offset: int) -> int:
        if next(written) == pieces:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(handle, content[:40], offset)

    os.pwrite = piece  # of this process alone
    try:
        ledger = Ledger(path)
        for number in range(first, first + 1_000_000):
            for _ in range(2):
                ledger.append(entry(number))
            os.write(answers, b"%d\n" % number)
    finally:
        os._exit(1)


def test_kill_loses_and_doubles_nothing(tmp_path):
    """Ten processes, killed with SIGKILL at random moments: five from outside, five in the middle of a line."""
    path, draw, answered, torn = tmp_path / "ledger.jsonl", random.Random(1), [], 0
    for turn in range(10):
        pieces = draw.randrange(2, 400) if turn % 2 else None
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            appending(path, turn * 1_000_000, writing, pieces)
        os.close(writing)
        with os.fdopen(reading, "rb") as answers:
            if pieces is None:
                answered += [int(answers.readline()) for _ in range(draw.randrange(1, 40))]
                sum(range(draw.randrange(100_000)))  # somewhere in the next
                os.kill(child, signal.SIGKILL)
            assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
            answered += [int(line) for line in answers.read().split(b"\n")[:-1]]
        found = verify_ledger(path)
        assert not found.broken
        torn += found.interrupted
        written = [e.round for e in found.entries]
        assert len(written) == len(set(written))
        assert set(answered) <= set(written)
        assert len(written) <= len(answered) + turn + 1, "at most the line that was being written"
    assert torn >= 4, "kills met lines that were being written"
