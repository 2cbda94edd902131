"""What a federation tells while it runs; the command line draws it, a library user may ignore it."""

from typing import Protocol


class Progress(Protocol):
    """Listens to a run."""

    def begin(self, work: int, done: int) -> None:
        """`work` is the number of images that will pass in all, `done` those of earlier whole rounds."""

    def advance(self, images: int, what: str) -> None:
        """A client has finished training or evaluating on so many images."""

    def round_done(self, server_round: int, accuracy: float | None, loss: float) -> None:
        """A round is whole: mean validation accuracy, if it was evaluated, and mean training loss."""


class Silent:
    """Listens and says nothing."""

    def begin(self, work: int, done: int) -> None: ...

    def advance(self, images: int, what: str) -> None: ...

    def round_done(self, server_round: int, accuracy: float | None, loss: float) -> None: ...
