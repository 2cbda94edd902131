"""The site's door as filters of NVIDIA FLARE: in a site's own privacy.json, or in a job's recipe.

recipe.add_client_input_filter(Guard("/etc/fluoroscope/appetite.toml"), tasks=["train"])
recipe.add_client_output_filter(Meter("/etc/fluoroscope/appetite.toml"), tasks=["train"])
"""

from fluoroscope.errors import Unsupported

try:
    import nvflare  # noqa: F401  # the one place that says what is missing
except ModuleNotFoundError as problem:
    raise Unsupported(
        "the filters for NVFlare need it, and it is not installed here: pip install 'fluoroscope[nvflare]'."
    ) from problem

from fluoroscope.integrations.nvflare.defend import Defend
from fluoroscope.integrations.nvflare.guard import Guard
from fluoroscope.integrations.nvflare.meter import Meter
from fluoroscope.integrations.nvflare.record import Record

__all__ = ["Defend", "Guard", "Meter", "Record"]
