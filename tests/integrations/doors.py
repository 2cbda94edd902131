"""A site's door that answers as a test tells it, and remembers what came."""

from dataclasses import dataclass, field
from types import SimpleNamespace

from fluoroscope.site.decision import Decision
from fluoroscope.site.subject import Subject

SEND = Decision("send")
WITHHOLD = Decision("withhold", ("reconstruction: 0.3 is above the limit of 0.02.",))


@dataclass
class Door:
    admits: Decision = SEND
    releases: Decision = SEND
    becomes: dict | None = None
    """What leaves in the place of an update; the update itself where this is None."""
    came: list = field(default_factory=list)
    left: list = field(default_factory=list)
    unread: list = field(default_factory=list)
    subject: Subject = field(default_factory=Subject)

    def receive(self, state, *, run, round):
        self.came.append((state, run, round))
        return self.admits

    def unreadable(self, direction, problem, *, run, round):
        self.unread.append((direction, run, round))
        return WITHHOLD

    def release(self, before, after, *, run, round):
        self.left.append((before, after, run, round))
        passing = after if self.becomes is None else self.becomes
        return SimpleNamespace(decision=self.releases, state=passing if self.releases.passes else {})
