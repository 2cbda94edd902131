"""`fluoroscope serve` and a run to watch, each as a process of its own."""

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COMMAND = [sys.executable, "-c", "from fluoroscope.cli import main; main()", "serve"]
RUN = """
import sys
from pathlib import Path
from fluoroscope.progress_file import progress_in
with progress_in(Path(sys.argv[1]), "audit", expected=600) as tell:
    tell(0, 4, "begun")
    print("begun", flush=True)
    for line in sys.stdin:
        tell(float(line), 4, f"cell {line.strip()}")
        print("told", flush=True)
"""


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    process: subprocess.Popen
    base: str
    token: str

    @property
    def url(self) -> str:
        return f"{self.base}/?token={self.token}"

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])


@contextmanager
def serving(runs: Path, *options: str):
    command = [*COMMAND, str(runs), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        base, _, token = process.stdout.readline().strip().removeprefix("live view: ").partition("/?token=")
        try:
            yield Server(process, base, token)
        finally:
            process.kill()


class Running:
    """A run whose progress the test decides."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.process.stdout.readline()

    def tell(self, done: float) -> None:
        self.process.stdin.write(f"{done}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
