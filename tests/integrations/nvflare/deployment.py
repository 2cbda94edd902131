"""A federation of NVFlare on loopback, as `nvflare poc` provisions it: run as a program, since its threads do not end.

python deployment.py provision FOLDER        startup kits; prints where they are
python deployment.py KITS JOB POLICY ...     the job once under each policy of the site; prints how each one ended
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

SITES = ("site-1",)
ADMIN = "admin@nvidia.com"


def provision(folder: Path) -> Path:
    """Startup kits of a server and a site, with certificates; all on one free port of this machine."""
    from nvflare.tool.poc.poc_commands import prepare_poc_provision

    prepare_poc_provision(
        clients=[],
        number_of_clients=len(SITES),
        workspace=str(folder / "poc"),
        docker_image=None,
        use_he=False,
        project_conf_path="",
        examples_dir=None,
    )
    (prod,) = folder.glob("poc/*/prod_00")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kits = ("server/startup/fed_server.json", "*/startup/fed_client.json", "*@*/startup/fed_admin.json")
    for path in (path for kit in kits for path in prod.glob(kit)):
        text = re.sub(r'"(server|localhost):\d+"', f'"localhost:{port}"', path.read_text())
        path.write_text(re.sub(r'port": \d+', f'port": {port}', text))
    return prod


def start(prod: Path, name: str, stack: ExitStack) -> None:
    kind = "server" if name == "server" else "client"
    command = [sys.executable, "-u", "-m", f"nvflare.private.fed.app.{kind}.{kind}_train", "-m", str(prod / name)]
    command += ["-s", f"fed_{kind}.json", "--set", "secure_train=true", "org=nvidia", "config_folder=config"]
    command += [] if kind == "server" else [f"uid={name}"]
    log = stack.enter_context((prod / f"{name}.log").open("w"))
    process = subprocess.Popen(command, cwd=prod / name, stdout=log, stderr=log, start_new_session=True)
    stack.callback(process.wait)
    stack.callback(os.killpg, process.pid, signal.SIGKILL)  # with the processes that it started


def session(prod: Path, seconds: float):
    """A session of the administrator, when all sites are there."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    deadline = time.monotonic() + seconds
    while True:
        try:
            made = new_secure_session(ADMIN, str(prod / ADMIN), timeout=5)
            if len(made.get_system_info().client_info) == len(SITES):
                return made
            made.close()
        except Exception:  # not up yet, in one of many ways
            if time.monotonic() > deadline:
                raise
        time.sleep(0.5)


def main(command: str, *arguments: str) -> None:
    if command == "provision":
        print(provision(Path(arguments[0])))
        return
    prod, (job, *policies) = Path(command), arguments
    with ExitStack() as stack:
        for each in ("server", *SITES):
            start(prod, each, stack)
        opened = session(prod, 90)
        for policy in policies:  # each job is a process of its own, which reads the policy anew
            shutil.copy(policy, Path(policy).with_name("appetite.toml"))
            number = opened.submit_job(job)
            opened.monitor_job(number, timeout=150)
            print(f"{number} {opened.get_job_meta(number)['status']}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
