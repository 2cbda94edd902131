"""The site's door as filters of MONAI's client for federated learning, `MonaiAlgo`.

In a file of the site's own, outside of the bundle that the server provisions:

    {
      "guard": {"_target_": "fluoroscope.integrations.monai.Guard", "policy": "/etc/fluoroscope/appetite.toml"},
      "pre_filters": ["@guard"],
      "post_weight_filters": [{"_target_": "fluoroscope.integrations.monai.Meter", "guard": "@guard"}],
      "post_evaluate_filters": [{"_target_": "fluoroscope.integrations.monai.Metrics", "guard": "@guard"}]
    }
"""

from fluoroscope.integrations.monai.guard import Guard
from fluoroscope.integrations.monai.meter import Meter
from fluoroscope.integrations.monai.metrics import Metrics

__all__ = ["Guard", "Meter", "Metrics"]
