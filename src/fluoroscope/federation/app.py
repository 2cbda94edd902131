"""The apps for a deployment (superlink and supernodes): `flwr run` finds them by these names.

The run's configuration names the plan and, for the server, the folder of the records; each supernode's
configuration gives its `partition-id`. `examples/flower-app` is a folder to run.
"""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fluoroscope.federation.client import client_app
from fluoroscope.federation.plan import Plan, read_plan
from fluoroscope.federation.progress import Silent
from fluoroscope.federation.server import serve


def _plan(context: Context) -> Plan:
    return read_plan(Path(str(context.run_config["plan"])))


client = client_app(_plan)
server = ServerApp()


@server.main()
def _main(grid: Grid, context: Context) -> None:
    serve(grid, _plan(context), Path(str(context.run_config["out"])), "cpu", Silent())
