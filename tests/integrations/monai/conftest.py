import json
import warnings

import pytest
import torch
from monai.fl.client import MonaiAlgo
from monai.fl.utils.constants import ExtraItems
from monai.networks.nets import Classifier

from .bundle import NETWORK, OWN, write_bundle, write_phantoms


@pytest.fixture
def start(tmp_path):
    """MONAI's own client of a bundle, with the site's filters in a file outside of it."""
    images = write_phantoms(tmp_path / "site" / "images", OWN)
    write_bundle(tmp_path / "app" / "bundle")
    filters = tmp_path / "site" / "filters.json"
    content = {
        "guard": {"_target_": "fluoroscope.integrations.monai.Guard", "policy": str(tmp_path / "site/appetite.toml")},
        "pre_filters": ["@guard"],
        "post_weight_filters": [{"_target_": "fluoroscope.integrations.monai.Meter", "guard": "@guard"}],
        "post_evaluate_filters": [{"_target_": "fluoroscope.integrations.monai.Metrics", "guard": "@guard"}],
    }
    filters.write_text(json.dumps(content))

    def made(**settings: object) -> MonaiAlgo:
        given = {"dataset_dir": str(images)}
        client = MonaiAlgo(
            "bundle", config_filters_filename=str(filters), train_kwargs=given, eval_kwargs=dict(given), **settings
        )
        with warnings.catch_warnings():  # that a bundle is run as code, and of readers that are not installed
            warnings.simplefilter("ignore", UserWarning)
            client.initialize({ExtraItems.CLIENT_NAME: "north", ExtraItems.APP_ROOT: str(tmp_path / "app")})
        return client

    return made


@pytest.fixture
def model():
    """A global model, as nobody has trained it yet."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Classifier(**NETWORK).state_dict()
