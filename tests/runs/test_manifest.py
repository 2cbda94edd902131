"""Manifests of finished runs: what they cover, and what is seen of a change."""

import hashlib
import json
import os

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fluoroscope.errors import BadInput, FluoroscopeError
from fluoroscope.runs import manifest as manifest_module
from fluoroscope.runs.manifest import forget_manifest, read_manifest, renew, save, write_manifest
from fluoroscope.runs.signature import confirm, read_key, signed
from fluoroscope.runs.verification import verified_runs
from fluoroscope.runs.walk import MANIFEST
from tests.runs.folders import federation_folder, tree, write

PEM, RAW, BARE = serialization.Encoding.PEM, serialization.PublicFormat, serialization.NoEncryption()


@pytest.fixture
def run(tmp_path):
    folder = federation_folder(tmp_path / "run")
    write_manifest(folder, "federate")
    return folder


def test_every_file_is_covered_but_those_of_writers_at_work(run):
    write(run / ".run.lock", "")
    write(run / "rounds/.x.part", "half")
    (found,) = verified_runs(run).values()
    assert found.holds
    assert set(found.whole) == tree(run) - {MANIFEST, ".run.lock", "rounds/.x.part"}
    assert not found.not_listed
    listed = json.loads((run / MANIFEST).read_text())["files"]["result.json"]
    assert listed == {"sha256": hashlib.sha256(b"{}").hexdigest(), "bytes": 2}


def test_a_file_that_another_command_takes_away_meanwhile_is_not_of_the_run(run, monkeypatch):
    listed = manifest_module.files_of(run)
    monkeypatch.setattr(manifest_module, "files_of", lambda folder: listed)
    (run / "rounds/0001/north.safetensors").unlink()
    made = write_manifest(run, "study")
    assert "rounds/0001/north.safetensors" not in made.files
    assert len(made.files) == len(listed.plain) - 1


def test_every_flipped_bit_of_every_file_is_named(run):
    for name in sorted(tree(run) - {MANIFEST}):
        content = (run / name).read_bytes()
        (run / name).write_bytes(bytes([content[0] ^ 1]) + content[1:])
        assert verified_runs(run)["."].damaged == (name,)
        (run / name).write_bytes(content)
    assert verified_runs(run)["."].holds


def test_what_is_missing_and_what_came_later_is_named(run, tmp_path):
    (run / "rounds/0001/north.safetensors").unlink()
    write(run / "later.txt", "x")
    (run / "link").symlink_to(tmp_path)
    (run / "result.json").unlink()
    (run / "result.json").symlink_to(run / "run.json")
    os.mkfifo(run / "pipe")
    found = verified_runs(run)["."]
    assert not found.holds
    assert found.missing == ("result.json", "rounds/0001/north.safetensors")
    assert found.not_listed == ("later.txt", "link", "pipe")
    assert found.problems == "missing: result.json, rounds/0001/north.safetensors"


@pytest.mark.parametrize("at", range(0, 1500, 37))
def test_the_manifest_knows_its_own_changes(run, at):
    content = bytearray((run / MANIFEST).read_bytes())
    at %= len(content)
    content[at] = ord("7") if content[at] != ord("7") else ord("8")
    (run / MANIFEST).write_bytes(content)
    with pytest.raises(BadInput, match=MANIFEST):
        verified_runs(run)


def test_a_manifest_that_names_files_outside_is_refused(run):
    manifest = read_manifest(run)
    for name in ("../x", "/etc/passwd", "a/../../b", ""):
        save(run, type(manifest)(**{**vars(manifest), "files": {name: manifest.files["run.json"]}}))
        with pytest.raises(BadInput, match="outside"):
            read_manifest(run)


def test_a_run_without_one_says_what_is_not_covered(run):
    forget_manifest(run)
    found = verified_runs(run)["."]
    assert found.manifest is None
    assert set(found.not_listed) == tree(run)


def test_a_run_inside_has_its_own(run):
    write_manifest(run / "calibration", "calibrate")
    write_manifest(run, "federate")
    write(run / "calibration/calibration.json", "[]")
    found = verified_runs(run)
    assert found["."].holds
    assert not [name for name in found["."].whole if name.startswith("calibration/")]
    assert found["calibration"].damaged == ("calibration.json",)


def test_checksums_that_are_known_are_taken_over(tmp_path):
    write(tmp_path / "a", "x")
    made = write_manifest(tmp_path, "federate", {"a": "0" * 64})
    assert made.files["a"].sha256 == "0" * 64


def test_a_page_that_is_written_later_is_entered_and_not_what_was_signed(run, tmp_path):
    write(run / "report.html", "1")
    write(tmp_path / "elsewhere.html", "1")
    assert renew(run, [run / "report.html", tmp_path / "elsewhere.html"])
    assert "report.html" in verified_runs(run)["."].whole
    save(run, signed(read_manifest(run), b"s" * 32))
    assert renew(run, [run / "report.html"])
    write(run / "report.html", "2")
    assert not renew(run, [run / "report.html"])
    assert verified_runs(run)["."].holds
    assert read_manifest(run).signature is None


def keys(tmp_path):
    private, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    pkcs, ssh = serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.OpenSSH
    contents = {
        "pem": private.private_bytes(PEM, pkcs, BARE),
        "ssh": private.private_bytes(PEM, ssh, BARE),
        "pub.pem": private.public_key().public_bytes(PEM, RAW.SubjectPublicKeyInfo),
        "pub.ssh": private.public_key().public_bytes(serialization.Encoding.OpenSSH, RAW.OpenSSH),
        "other": other.public_key().public_bytes(PEM, RAW.SubjectPublicKeyInfo),
        "secret": b"s" * 32,
        "other secret": b"t" * 32,
        "short": b"s" * 31,
        "locked": private.private_bytes(PEM, pkcs, serialization.BestAvailableEncryption(b"pass")),
        "x25519": X25519PrivateKey.generate().private_bytes(PEM, pkcs, BARE),
        "empty": b"",
        "broken": b"-----BEGIN PRIVATE KEY-----\nnothing",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_signatures_hold_for_their_own_key_alone(run, tmp_path):
    at, bare = keys(tmp_path), read_manifest(run)
    for sign, fits in {"pem": {"pem", "ssh", "pub.pem", "pub.ssh"}, "ssh": {"pub.pem"}, "secret": {"secret"}}.items():
        save(run, signed(bare, read_key(at / sign)))
        manifest = read_manifest(run)
        for name in ("pem", "ssh", "pub.pem", "pub.ssh", "other", "secret", "other secret"):
            if name in fits:
                confirm(manifest, read_key(at / name))
            elif name not in ("pem", "ssh", "pub.ssh") or sign != "ssh":
                with pytest.raises(BadInput):
                    confirm(manifest, read_key(at / name))
    with pytest.raises(BadInput, match="not signed"):
        confirm(bare, read_key(at / "pem"))


def test_a_signed_manifest_that_is_made_again_is_not_signed_by_its_owner(run, tmp_path):
    key = read_key(keys(tmp_path) / "pem")
    save(run, signed(read_manifest(run), key))
    write(run / "result.json", "forged")
    forged = {**vars(write_manifest(tmp_path / "run", "federate"))}
    forged["signature"] = signed(read_manifest(run), b"x" * 32).signature
    save(run, type(read_manifest(run))(**forged))
    with pytest.raises(BadInput, match="signed by"):
        confirm(read_manifest(run), key)


@pytest.mark.parametrize("name", ["short", "locked", "x25519", "empty", "broken", "none"])
def test_what_is_no_key_is_refused_with_a_sentence(run, tmp_path, name):
    with pytest.raises(FluoroscopeError, match=r"openssl .* secret"):
        read_key(keys(tmp_path) / name)


def test_a_public_key_does_not_sign(run, tmp_path):
    with pytest.raises(FluoroscopeError, match="private"):
        signed(read_manifest(run), read_key(keys(tmp_path) / "pub.pem"))
