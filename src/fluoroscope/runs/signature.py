"""Signatures of manifests, by Ed25519 or by a secret that two parties share."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.runs.manifest import RunManifest, Signature

LEAST_SECRET = 32
MOST_KEY = 2**16
_MAKE = "`openssl genpkey -algorithm ed25519 -out key.pem` makes a key, `openssl rand -out secret 32` a secret."
Key = Ed25519PrivateKey | Ed25519PublicKey | bytes


def read_key(path: Path) -> Key:
    """An Ed25519 key as PEM or as OpenSSH writes it, private or public; any other file is a secret."""
    try:
        content = path.read_bytes() if path.is_file() and path.stat().st_size <= MOST_KEY else b""
    except OSError as problem:
        raise BadInput(f"the key {path} cannot be read: {problem.strerror}.") from problem
    if not content:
        raise BadInput(f"{path} is no key: it is missing, empty or larger than {MOST_KEY:,} bytes. {_MAKE}")
    if not content.startswith((b"-----BEGIN ", b"ssh-")):
        if len(content) < LEAST_SECRET:
            raise Misconfigured(f"the secret {path} has {len(content)} bytes; {LEAST_SECRET} are needed. {_MAKE}")
        return content
    for load in _LOADERS:
        try:
            key = load(content)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue
        if isinstance(key, Ed25519PrivateKey | Ed25519PublicKey):
            return key
    raise BadInput(f"{path} is no Ed25519 key that can be read without a passphrase. {_MAKE}")


def signed(manifest: RunManifest, key: Key) -> RunManifest:
    """The manifest with a signature of its digest."""
    if isinstance(key, Ed25519PublicKey):
        raise Misconfigured("a public key confirms a signature and cannot make one: give the private one.")
    if isinstance(key, bytes):
        return replace(manifest, signature=Signature("hmac-sha256", "", _mac(manifest, key)))
    value = key.sign(_message(manifest)).hex()
    return replace(manifest, signature=Signature("ed25519", _name(key.public_key()), value))


def confirm(manifest: RunManifest, key: Key) -> None:
    """Nothing, where the key made the signature.

    Raises:
        BadInput: it did not, or the manifest has none.
    """
    found = manifest.signature
    if found is None:
        raise BadInput("the manifest is not signed: `fluoroscope records RUN --sign KEY` signs it.")
    wanted = "hmac-sha256" if isinstance(key, bytes) else "ed25519"
    if found.algorithm != wanted:
        raise BadInput(f"the manifest is signed by {found.algorithm}, and the key is for {wanted}.")
    if isinstance(key, bytes):
        holds = hmac.compare_digest(found.value.encode(), _mac(manifest, key).encode())
    else:
        public = key.public_key() if isinstance(key, Ed25519PrivateKey) else key
        holds = _verifies(public, found.value, _message(manifest))
    if not holds:
        raise BadInput("the signature is not of this key: the manifest was changed, or somebody else signed it.")


def _verifies(public: Ed25519PublicKey, value: str, message: bytes) -> bool:
    try:
        public.verify(bytes.fromhex(value), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _message(manifest: RunManifest) -> bytes:
    return b"fluoroscope run manifest\n" + manifest.expected_digest.encode()


def _mac(manifest: RunManifest, secret: bytes) -> str:
    return hmac.new(secret, _message(manifest), hashlib.sha256).hexdigest()


def _name(public: Ed25519PublicKey) -> str:
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:16]


_LOADERS: tuple[Callable[[bytes], object], ...] = (
    lambda content: serialization.load_pem_private_key(content, None),
    serialization.load_pem_public_key,
    lambda content: serialization.load_ssh_private_key(content, None),
    serialization.load_ssh_public_key,
)
