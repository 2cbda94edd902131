"""The secret that a site's noise is drawn from: a repeated message gets the same noise, which nobody else can foresee.

Two copies of one update with fresh noise each would have a mean with less of it. See docs/decisions/0017.
"""

import hmac
import os
import secrets
from pathlib import Path

from fluoroscope.atomic_write import sync
from fluoroscope.errors import BadInput, Misconfigured

LENGTH = 32


def noise_key(ledger: Path, exchange: str) -> bytes:
    """For this exchange, from the secret beside the ledger, which is made where there is none."""
    return hmac.digest(_secret(secret_path(ledger)), exchange.encode(), "sha256")


def secret_path(ledger: Path) -> Path:
    """Where the secret of this ledger's site lies."""
    return ledger.with_name(f"{ledger.name}.secret")


def _secret(path: Path) -> bytes:
    """32 bytes of a file that nobody else may read."""
    if not path.exists():
        _make(path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            readable, content = os.fstat(handle).st_mode & 0o077, os.read(handle, LENGTH + 1)
        finally:
            os.close(handle)
    except OSError as problem:
        raise BadInput(f"cannot read the site's secret {path}: {problem.strerror}.") from problem
    if readable:
        raise Misconfigured(f"others may read the site's secret {path}: run `chmod 600` on it, or delete it.")
    if len(content) != LENGTH:
        raise BadInput(f"the site's secret {path} has not its {LENGTH} bytes: delete it, and a new one is made.")
    return content


def _make(path: Path) -> None:
    """Whole or not there; of two processes that make one, the first one's stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, secrets.token_bytes(LENGTH))
        os.fsync(handle)
        os.link(part, path)
    except FileExistsError:
        pass
    finally:
        os.close(handle)
        part.unlink()
    sync(path.parent)
