"""A small MONAI bundle: phantoms as PNG, a network of MONAI's own, and its supervised trainer and evaluator."""

import json
from collections.abc import Mapping
from pathlib import Path

from monai.fl.utils.constants import WeightType
from monai.fl.utils.exchange_object import ExchangeObject
from PIL import Image
from torch import Tensor

from fluoroscope.data import Request, load

NETWORK = {"in_shape": [1, 28, 28], "classes": 2, "channels": [4, 8], "strides": [2, 2]}
OWN = {"normal": 1, "opacity": 3}
"""Images of the site."""
BATCH, RATE = 2, 0.1

METADATA = {"version": "0.1.0", "monai_version": "1.6.1", "task": "phantoms"}
TRAIN = {
    "imports": ["$import glob", "$import pathlib"],
    "bundle_root": ".",
    "dataset_dir": "",
    "device": "$torch.device('cpu')",
    "network_def": {"_target_": "monai.networks.nets.Classifier", **NETWORK},
    "network": "$@network_def.to(@device)",
    "loss": {"_target_": "torch.nn.CrossEntropyLoss"},
    "optimizer": {"_target_": "torch.optim.SGD", "params": "$@network.parameters()", "lr": RATE},
    "files": "$sorted(glob.glob(@dataset_dir + '/*/*.png'))",
    "classes": "$sorted({pathlib.Path(each).parent.name for each in @files})",
    "items": "$[{'image': each, 'label': @classes.index(pathlib.Path(each).parent.name)} for each in @files]",
    "preprocessing": {
        "_target_": "monai.transforms.Compose",
        "transforms": [
            {
                "_target_": "monai.transforms.LoadImaged",
                "keys": "image",
                "reader": "PILReader",
                "ensure_channel_first": True,
                "reverse_indexing": False,
            },
            {
                "_target_": "monai.transforms.ScaleIntensityRanged",
                "keys": "image",
                "a_min": 0,
                "a_max": 255,
                "b_min": 0.0,
                "b_max": 1.0,
            },
        ],
    },
    "dataset": {"_target_": "monai.data.Dataset", "data": "@items", "transform": "@preprocessing"},
    "train": {
        "dataset": "@dataset",
        "inferer": {"_target_": "monai.inferers.SimpleInferer"},
        "dataloader": {"_target_": "monai.data.DataLoader", "dataset": "@dataset", "batch_size": BATCH},
        "trainer": {
            "_target_": "monai.engines.SupervisedTrainer",
            "max_epochs": 1,
            "device": "@device",
            "train_data_loader": "@train#dataloader",
            "network": "@network",
            "loss_function": "@loss",
            "optimizer": "@optimizer",
            "inferer": "@train#inferer",
        },
    },
    "initialize": [],
    "run": ["$@train#trainer.run()"],
}
EVALUATE = {
    "validate": {
        "dataset": "@dataset",
        "inferer": {"_target_": "monai.inferers.SimpleInferer"},
        "evaluator": {
            "_target_": "monai.engines.SupervisedEvaluator",
            "device": "@device",
            "val_data_loader": "@train#dataloader",
            "network": "@network",
            "inferer": "@validate#inferer",
            "key_val_metric": {
                "loss": {
                    "_target_": "monai.handlers.IgniteMetricHandler",
                    "loss_fn": "@loss",
                    "output_transform": "$monai.handlers.from_engine(['pred', 'label'])",
                }
            },
        },
    },
    "run": ["$@validate#evaluator.run()"],
}


def write_bundle(folder: Path) -> Path:
    """As a server would provision it, except for the images: they are the site's own."""
    configs = folder / "configs"
    configs.mkdir(parents=True)
    for name, content in (("metadata", METADATA), ("train", TRAIN), ("evaluate", EVALUATE)):
        (configs / f"{name}.json").write_text(json.dumps(content, indent=2))
    return folder


def write_phantoms(folder: Path, counts: dict[str, int], first: int = 0) -> Path:
    """A folder per class with so many images, from the first one on."""
    found = load("phantom/chest", Request(28))
    for name, count in counts.items():
        (folder / name).mkdir(parents=True)
        images = found.batch.images[found.batch.labels == found.classes.index(name)]
        for place, image in enumerate(images[first : first + count]):
            Image.fromarray((image[0] * 255).round().byte().numpy()).save(folder / name / f"{place}.png")
    return folder


def sent(state: Mapping[str, Tensor]) -> ExchangeObject:
    """A model as a server sends it: arrays, not tensors."""
    return ExchangeObject({name: value.numpy().copy() for name, value in state.items()}, weight_type=WeightType.WEIGHTS)
