"""What attacks can tell of a client before they are run."""

from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks import ATTACKS, check_applies
from fluoroscope.defences import NO_DEFENCE
from fluoroscope.errors import Unsupported
from fluoroscope.types import Adam, LabelledImages
from tests.attacks.gradient_inversion.observations import seen, victim

PUBLIC = LabelledImages(torch.rand(2, 1, 32, 32), torch.tensor([0, 1]))
ALL = ("r-gap", "span", "feature-decoder", "map-inversion", "bn-only", "decoder", "ridge")


def observed(model="small-cnn", **training):
    found = seen(victim(1, 32), model, prior=torch.zeros(1, 32, 32))
    return replace(found, defence=NO_DEFENCE, public_images=PUBLIC, training=replace(found.training, **training))


@pytest.mark.parametrize("name", ALL)
def test_one_step_of_one_image_through_batchnorm_rules_none_out(name):
    check_applies(ATTACKS.get(name), observed())


@pytest.mark.parametrize(
    ("name", "observation", "why"),
    [
        ("r-gap", observed(images=2), "one step of Sgd on one image, and this client made 2 of Sgd on 2"),
        ("span", observed(epochs=3), "this client ran 3 epochs"),
        (
            "feature-decoder",
            observed(optimiser=Adam(0.1), images=4, batch_size=2),
            "from one step, or from several of SGD",
        ),
        ("map-inversion", observed("lenet5"), "gives none away"),
        ("bn-only", observed(batchnorm="eval"), "gives none away"),
        ("decoder", replace(observed(), public_images=None), "the attacker does not have public-images"),
    ],
)
def test_what_does_not_apply_says_why_and_apart_what_would(name, observation, why):
    with pytest.raises(Unsupported, match=why) as caught:
        check_applies(ATTACKS.get(name), observation)
    assert "such as" not in caught.value.why
    assert str(caught.value).startswith(caught.value.why)


@pytest.mark.parametrize("name", ["r-gap", "span", "feature-decoder", "bn-only"])
def test_the_run_says_the_same(name):
    observation = observed("lenet5", epochs=3, images=2, batchnorm="eval")
    with pytest.raises(Unsupported) as before:
        check_applies(ATTACKS.get(name), observation)
    with pytest.raises(Unsupported) as within:
        ATTACKS.get(name).run([observation], torch.Generator())
    assert within.value.why == before.value.why
