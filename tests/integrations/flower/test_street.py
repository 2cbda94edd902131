"""The whole street on loopback: TLS, node authentication, two sites with their own images, policies and ledgers."""

import datetime
import ipaddress
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fluoroscope.federation.store import RecordStore
from fluoroscope.site.ledger import read_ledger, verify_ledger
from tests.data.pictures import class_folders
from tests.federation.loopback import Loopback, free_port

APP = Path(__file__).parents[3] / "examples/flower-app"
FLUOROSCOPE = (sys.executable, "-c", "from fluoroscope.cli import main; main()")
PLAN = """
rounds = 1
[data]
size = 28
channels = 1
[partition]
name = "own"
sites = ["north", "south"]
classes = ["normal", "sick"]
[model]
name = "small-cnn"
[training]
lr = 0.05
batch_size = 4
"""
POLICY = """
when_not_judged = "warn"
[limits]
reconstruction = 1.0
label-counts = 1.0
[site]
images = "folder:images"
size = 28
channels = 1
seconds = 5
[model]
name = "small-cnn"
[training]
lr = 0.05
batch_size = 4
"""


def certificates(folder: Path) -> list[str]:
    """A CA and a server's certificate, as a hospital's own would be; the superlink's flags."""
    soon = datetime.datetime.now(datetime.UTC)

    def signed(name: str, key, issuer: str, by, ca: bool) -> x509.Certificate:
        def named(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        made = x509.CertificateBuilder().subject_name(named(name)).issuer_name(named(issuer))
        made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
        made = made.not_valid_before(soon - datetime.timedelta(days=1)).not_valid_after(
            soon + datetime.timedelta(days=1)
        )
        made = made.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        made = made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
        here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return made.add_extension(x509.SubjectAlternativeName(here), critical=False).sign(by, hashes.SHA256())

    root, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    files = {
        "ca.pem": signed("ca", root, "ca", root, ca=True).public_bytes(serialization.Encoding.PEM),
        "server.pem": signed("localhost", server, "ca", root, ca=False).public_bytes(serialization.Encoding.PEM),
        "server.key": server.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    flags = {"--ssl-ca-certfile": "ca.pem", "--ssl-certfile": "server.pem", "--ssl-keyfile": "server.key"}
    return [word for flag, name in flags.items() for word in (flag, str(folder / name))]


def node_key(folder: Path, name: str) -> Path:
    """As `ssh-keygen -t ecdsa -b 384` makes it."""
    key, openssh = ec.generate_private_key(ec.SECP384R1()), serialization.PrivateFormat.OpenSSH
    private = key.private_bytes(serialization.Encoding.PEM, openssh, serialization.NoEncryption())
    public = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    (folder / name).write_bytes(private)
    (folder / f"{name}.pub").write_bytes(key.public_key().public_bytes(*public))
    return folder / name


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_sites_with_their_own_images_policies_and_ledgers(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    with ExitStack() as stack:
        here = Loopback(tmp_path, stack, f'root-certificates = "{tmp_path / "ca.pem"}"')
        here.superlink(*certificates(tmp_path), "--enable-supernode-auth")
        for count, site in ((8, "north"), (5, "south")):
            class_folders(tmp_path / site / "images", count=count)
            (tmp_path / site / "appetite.toml").write_text(POLICY)
            key = node_key(tmp_path, f"{site}.key")
            said = here.flwr("supernode", "register", f"{key}.pub", "here")
            assert "successfully" in said, said
            here.start(
                *FLUOROSCOPE, "supernode", "--policy", str(tmp_path / site / "appetite.toml"), "--",
                "--superlink", f"127.0.0.1:{here.port}", "--root-certificates", str(tmp_path / "ca.pem"),
                "--auth-supernode-private-key", str(key), "--host", "127.0.0.1", "--port", str(free_port()),
                "--node-config", f'site="{site}" images="folder:{tmp_path / site / "images"}"',
                name=site,
            )  # fmt: skip
        settings = f'plan="{tmp_path / "plan.toml"}" out="{tmp_path / "records"}"'
        said = here.flwr("run", str(APP), "here", "--run-config", settings, "--stream")
        assert (tmp_path / "records/result.json").exists(), said + here.log("north") + here.log("south")
    records = RecordStore(tmp_path / "records").manifest(1).clients
    assert {name: entry.training.images for name, entry in records.items()} == {"north": 13, "south": 8}
    for site in ("north", "south"):
        ledger = tmp_path / site / "ledger.jsonl"
        assert not verify_ledger(ledger).broken
        went = [(entry.direction, entry.round) for entry in read_ledger(ledger)]
        assert went == [("in", 1), ("out", 1), ("in", 1)]  # to be trained, and then the new one to be evaluated
        assert "images" not in ledger.read_text()
