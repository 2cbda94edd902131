"""Flower's own programs on this machine: a superlink, supernodes, and `flwr run`."""

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

BIN = Path(sys.executable).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Loopback:
    """Programs that end with the test, with everything that they started."""

    def __init__(self, folder: Path, stack: ExitStack, superlink: str = "insecure = true") -> None:
        self.folder, self.port, self._stack = folder, free_port(), stack
        home = folder / "home"
        home.mkdir()
        (home / "config.toml").write_text(f'[superlink.here]\naddress = "127.0.0.1:{self.port}"\n{superlink}\n')
        own = {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        self.environment = os.environ | own | {"PATH": f"{BIN}:{os.environ['PATH']}"}

    def start(self, *command: str, name: str) -> None:
        log = self._stack.enter_context((self.folder / f"{name}.log").open("w"))
        process = subprocess.Popen(
            command, env=self.environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
        )
        self._stack.callback(process.wait)
        self._stack.callback(os.killpg, process.pid, signal.SIGKILL)  # with the processes that it started

    def superlink(self, *flags: str) -> None:
        """A superlink that installs nothing at run time; it answers when this returns."""
        where = ["--host", "127.0.0.1", "--port", str(self.port)]
        self.start("flower-superlink", *where, "--disable-runtime-dependency-installation", *flags, name="superlink")
        assert self._healthy("https" if "--ssl-certfile" in flags else "http", 90), self.log("superlink")

    def flwr(self, *arguments: str, seconds: float = 400) -> str:
        """What the command says."""
        done = subprocess.run(
            ["flwr", *arguments], env=self.environment, cwd=self.folder, timeout=seconds, capture_output=True, text=True
        )
        return done.stdout + done.stderr

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def _healthy(self, scheme: str, seconds: float) -> bool:
        trusting = ssl._create_unverified_context() if scheme == "https" else None
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{scheme}://127.0.0.1:{self.port}/health", timeout=2, context=trusting):
                    return True
            except OSError:
                time.sleep(0.5)
        return False
