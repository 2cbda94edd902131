"""The apps for a deployment (superlink and supernodes): `flwr run` finds them by these names.

The run's configuration names the plan and, for the server, the folder of the records; each supernode's
configuration gives its `partition-id`, or its `site` and `images` where these are its own. `examples/flower-app` is a
folder to run.
"""

from pathlib import Path

from fluoroscope import process_tuning

process_tuning.apply()  # Flower imports this file as a program, and torch comes with what follows

from flwr.app import Context  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402

from fluoroscope.federation.client import client_app  # noqa: E402
from fluoroscope.federation.plan import Plan, read_plan  # noqa: E402
from fluoroscope.federation.progress import Silent  # noqa: E402
from fluoroscope.federation.server import serve  # noqa: E402


def _plan(context: Context) -> Plan:
    return read_plan(Path(str(context.run_config["plan"])))


client = client_app(_plan)
server = ServerApp()


@server.main()
def _main(grid: Grid, context: Context) -> None:
    serve(grid, _plan(context), Path(str(context.run_config["out"])), "cpu", Silent())
