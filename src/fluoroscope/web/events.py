"""Server-sent events: what is shown is made at most once per second, however many people watch."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

EVERY = 1.0
"""Seconds between two looks at the files."""
MOST_WATCHERS = 500
_STILL_HERE = 15.0
"""Seconds without news after which a comment is sent, so that nobody in between closes a silent connection."""


@dataclass(eq=False)
class Snapshots:
    """Makes what is shown under a key, and keeps it for a second."""

    make: Callable[[str], str | None]
    """The content of a key; None where there is nothing of this name any more."""
    closing: Callable[[], bool] = lambda: False
    """Whether the server is about to end: streams must not keep it waiting."""
    watchers: int = 0
    _kept: dict[str, tuple[float, str | None]] = field(default_factory=dict)
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    async def latest(self, key: str) -> str | None:
        """What is shown now."""
        async with self._locks.setdefault(key, asyncio.Lock()):  # one looks, the others wait for it
            kept = self._kept.get(key)
            if kept is None or time.monotonic() - kept[0] >= EVERY * 0.9:
                kept = (time.monotonic(), await run_in_threadpool(self.make, key))
                self._kept[key] = kept
            return kept[1]

    async def stream(self, key: str) -> AsyncIterator[str]:
        """Events with what is shown, whenever that has changed."""
        self.watchers += 1
        try:
            yield "retry: 2000\n\n"
            shown, silent_since = None, time.monotonic()
            while not self.closing():
                content = await self.latest(key)
                if content is None:
                    yield "event: gone\ndata: {}\n\n"
                    return
                if content != shown:
                    shown, silent_since = content, time.monotonic()
                    yield f"data: {json.dumps({'html': content})}\n\n"
                elif time.monotonic() - silent_since > _STILL_HERE:
                    silent_since = time.monotonic()
                    yield ": still here\n\n"
                await asyncio.sleep(EVERY)
        finally:
            self.watchers -= 1
            if not self.watchers:  # keys of runs that nobody looks at any more
                self._kept.clear()
                self._locks.clear()
