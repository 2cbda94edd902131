"""The same apps on Flower's deployment engine: a superlink and two supernodes on loopback."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from fluoroscope.federation.run import federate
from fluoroscope.federation.store import RecordStore

from .conftest import digests, plan_of
from .loopback import Loopback, free_port

APP = Path(__file__).parents[2] / "examples/flower-app"


@pytest.mark.first
@pytest.mark.timeout(600)
@pytest.mark.slow
def test_superlink_and_supernodes_give_the_same_records(tmp_path):
    plan = plan_of(rounds=1, partition={"clients": 2})
    (tmp_path / "plan.toml").write_text(TOML)
    with ExitStack() as stack:
        here = Loopback(tmp_path, stack)
        here.superlink("--insecure")
        for i in range(2):
            node = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{here.port}"]
            config = f"partition-id={i} num-partitions=2"
            here.start(*node, "--port", str(free_port()), "--node-config", config, name=f"node-{i}")
        settings = f'plan="{tmp_path / "plan.toml"}" out="{tmp_path / "records"}"'
        said = here.flwr("run", str(APP), "here", "--run-config", settings, "--stream")
        assert (tmp_path / "records/result.json").exists(), said
    deployed, here = RecordStore(tmp_path / "records"), federate(plan, tmp_path / "here")
    for name, entry in here.manifest(1).clients.items():
        assert deployed.manifest(1).clients[name].loss == pytest.approx(entry.loss, rel=1e-4)
    assert digests(here.folder).keys() == digests(deployed.folder).keys()


TOML = """
rounds = 1
[data]
source = "phantom/chest"
size = 28
images = 160
[partition]
name = "iid"
clients = 2
auxiliary = 0.2
[model]
name = "small-cnn"
[training]
lr = 0.05
batch_size = 8
"""
