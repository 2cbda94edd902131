"""A stock PyTorch job that knows nothing of us, in NVFlare itself: what reaches the server, and what does not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from fluoroscope.integrations.nvflare_site import install, privacy_file
from fluoroscope.integrations.recorded import RecordedUpdates
from fluoroscope.site.ledger import verify_ledger

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

STOCK_MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm, self.last = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(4 * 26 * 26, 2)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.convolution(x))).flatten(1))
"""
STOCK_SCRIPT = """
import torch
import nvflare.client as flare
from stock_model import Net

torch.manual_seed(0)
images, labels, net = torch.rand(4, 1, 28, 28), torch.tensor([0, 1, 0, 1]), Net()
flare.init()
while flare.is_running():
    received = flare.receive()
    net.load_state_dict({name: torch.as_tensor(value) for name, value in received.params.items()})
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    loss = torch.nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    optimiser.step()
    flare.send(flare.FLModel(params=net.state_dict(), metrics={"loss": float(loss)}))
"""
STOCK_JOB = """
import sys
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv
from stock_model import Net

recipe = FedAvgRecipe(name="stock", model=Net(), min_clients=1, num_rounds=2, train_script="stock_script.py")
if sys.argv[1] == "export":
    recipe.export("jobs")
else:
    from fluoroscope.integrations.nvflare import Record

    recipe.add_client_output_filter(Record("updates"), tasks=["train"])
    recipe.execute(SimEnv(num_clients=1, workspace_root="simulated"))
"""
WITNESS = """
import json, os
from nvflare.apis.filter import Filter

class Witness(Filter):
    def process(self, shareable, fl_ctx):
        content = shareable.get("DXO", {}).get("data", {})
        seen = {
            "from": fl_ctx.get_peer_context().get_identity_name(),
            "code": shareable.get_return_code(),
            "keys": sorted(shareable),
            "numbers": sum(int(getattr(each, "size", 1)) for each in content.values()),
        }
        with open(os.environ["WITNESS"], "a") as log:
            log.write(json.dumps(seen) + "\\n")
        return shareable
"""
POLICY = """
when_not_judged = "{answer}"
[guard]
when_not_judged = "send"
[site]
ledger = "{answer}.jsonl"
"""


@pytest.fixture
def workshop(tmp_path):
    """A folder with the job, and a way to run programs in it."""
    files = {"stock_model": STOCK_MODEL, "stock_script": STOCK_SCRIPT, "stock_job": STOCK_JOB, "witness": WITNESS}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    home = tmp_path / "home"
    home.mkdir()
    paths = os.pathsep.join([str(ROOT / "src"), str(tmp_path)])
    environment = os.environ | {"PYTHONPATH": paths, "HOME": str(home), "WITNESS": str(tmp_path / "witness.jsonl")}
    environment["OMP_NUM_THREADS"] = "1"

    def run(*arguments: object) -> str:
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, timeout=400, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_a_site_withholds_does_not_reach_the_server(workshop, tmp_path):
    """The filters are the site's own: the job was exported without them, and the server runs NVFlare as it is."""
    workshop("stock_job.py", "export")
    prod = Path(workshop(HERE / "deployment.py", "provision", tmp_path).splitlines()[-1])
    answers = ("send", "withhold")
    policies = [tmp_path / f"{answer}.toml" for answer in answers]
    for policy, answer in zip(policies, answers, strict=True):
        policy.write_text(POLICY.format(answer=answer))
    install(privacy_file(prod / "site-1"), {"policy": str(tmp_path / "appetite.toml")})
    witness = {"name": "all", "task_result_filters": [{"path": "witness.Witness", "args": {}}]}
    (prod / "server/local/privacy.json").write_text(json.dumps({"scopes": [witness], "default_scope": "all"}))

    told = workshop(HERE / "deployment.py", prod, tmp_path / "jobs/stock", *policies).splitlines()[-2:]
    jobs, ends = zip(*(line.split(" ", 1) for line in told), strict=True)
    assert ends == ("FINISHED:COMPLETED", "FINISHED:EXECUTION_EXCEPTION"), "FedAvg ends where a reply is an error"
    arrived = [json.loads(line) for line in (tmp_path / "witness.jsonl").read_text().splitlines()]
    assert [each["code"] for each in arrived] == ["OK", "OK", "TASK_RESULT_FILTER_ERROR"]
    assert [each["numbers"] > 5000 for each in arrived] == [True, True, False]
    assert arrived[2]["keys"] == ["__headers__"], "neither weights nor metrics"

    log = (prod / "site-1.log").read_text()
    assert "fluoroscope lets the update of round 1 leave." in log
    assert "fluoroscope withheld this update: reconstruction could not be judged." in log
    streamed = (prod / "site-1" / jobs[1] / "error_log.txt").read_text()  # NVFlare sends this file to the server
    assert "fluoroscope withheld this update" in streamed
    assert "reconstruction" not in streamed
    assert str(tmp_path / "appetite.toml") not in log

    for job, answer, count in zip(jobs, answers, (2, 1), strict=True):
        ledger = tmp_path / f"{answer}.jsonl"
        verify_ledger(ledger)
        entries = [json.loads(line) for line in ledger.read_text().splitlines()]
        assert [entry["decision"] for entry in entries if entry["direction"] == "out"] == [answer] * count
        assert {entry["run"] for entry in entries} == {job}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_jobs_own_filter_in_the_simulator_writes_updates_down(workshop, tmp_path):
    """One line in a recipe. A site's privacy.json means nothing to the simulator's clients; a job's filters do."""
    workshop("stock_job.py", "simulate")
    updates = RecordedUpdates(tmp_path / "simulated/stock/site-1/updates")
    assert updates.rounds() == [0, 1]
    before, after = updates.load(1, "site-1")
    assert float((after["last.weight"] - before["last.weight"]).abs().sum()) > 0
    assert before["convolution.weight"].equal(updates.load(0, "site-1")[1]["convolution.weight"]), (
        "one client's average"
    )
