"""What can go wrong, each with the value that was seen and the remedy in its message.

The command line prints the message alone and leaves with `exit_code`; `--debug` shows the traceback.
"""


class FluoroscopeError(Exception):
    """Base of every error that a user can do something about."""

    exit_code = 1


class Misconfigured(FluoroscopeError):
    """A setting is missing, unknown, out of range or at odds with another."""

    exit_code = 2


class BadInput(FluoroscopeError):
    """A file or record cannot be read, is damaged or does not hold what it should."""

    exit_code = 2


class BringsCode(BadInput):
    """A file that should hold weights brings code: it was refused, and nothing in it was run."""

    exit_code = 3


class Unsupported(FluoroscopeError):
    """The combination that was asked for cannot work; the message says what can.

    Args:
        why: it cannot, as a sentence.
        remedy: another sentence for whoever chose it: apart, since who did not choose has no use for it.
    """

    exit_code = 2

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(*((why, remedy) if remedy else (why,)))
        self.why = why

    def __str__(self) -> str:
        return " ".join(map(str, self.args))


class Refused(FluoroscopeError):
    """A guard said no: nothing was trained, sent or revealed."""

    exit_code = 3
