"""Attack, score and defend one update of a network of your own: python examples/own_model.py"""

import argparse
from dataclasses import replace

import torch
from torch import nn

import fluoroscope as fl
from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.data import Request, load

options = argparse.ArgumentParser()
options.add_argument("--iterations", type=int, default=1200)
iterations = options.parse_args().iterations

# Yours: a module, its state before and after one client's round, and how the client trained.
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 12, 5, 2, 2), nn.Sigmoid(), nn.Conv2d(12, 12, 5, 2, 2), nn.Sigmoid(), nn.Flatten(), nn.Linear(768, 4)
)
images = load("phantom/chest", Request(size=32, images=60)).batch.images
private, public_mean = images[:1], images[1:].mean(0)
before = {name: value.clone() for name, value in model.state_dict().items()}
optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
nn.functional.cross_entropy(model(private), torch.tensor([1])).backward()
optimiser.step()

# The five lines: what does this update give away, and what does it give away behind a defence?
training = fl.LocalTraining(fl.Sgd(0.1, momentum=0.9, weight_decay=1e-4), images=1, batch_size=1)
update = fl.UpdateRecord.between(model, before, model.state_dict(), training, input_shape=(1, 32, 32))
attack = replace(ATTACKS.get("inverting-gradients"), budget=Budget(iterations))
print("plain:   ", fl.score(fl.attack(update, attack, public_mean=public_mean), private, public_mean=public_mean))
safer = fl.ClipAndNoise(1.0, 0.5).send(update, fl.generator(0))
print("defended:", fl.score(fl.attack(safer, attack, public_mean=public_mean), private, public_mean=public_mean))
