import pytest
import torch
from monai.networks.nets.resnet import resnet18 as monai_resnet18
from torch import nn

from fluoroscope.errors import BadInput
from fluoroscope.models import Architecture


def torchvision_names():
    """The keys of torchvision.models.resnet18().state_dict(), in its order."""
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    names = ["conv1.weight", *(f"bn1.{n}" for n in norm)]
    for layer in (1, 2, 3, 4):
        for block in (0, 1):
            at = f"layer{layer}.{block}"
            for i in (1, 2):
                names += [f"{at}.conv{i}.weight", *(f"{at}.bn{i}.{n}" for n in norm)]
            if layer > 1 and block == 0:
                names += [f"{at}.downsample.0.weight", *(f"{at}.downsample.1.{n}" for n in norm)]
    return [*names, "fc.weight", "fc.bias"]


def imagenet_like(file, drop=()):
    state = Architecture("resnet18", 3, 1000, 224).build(seed=5).state_dict()
    torch.save({name: tensor for name, tensor in state.items() if name not in drop}, file)
    return state


def test_the_names_and_the_size_are_torchvisions():
    model = Architecture("resnet18", 3, 1000, 224).build()
    assert len(torchvision_names()) == 122
    assert list(model.state_dict()) == torchvision_names()
    assert sum(p.numel() for p in model.parameters()) == 11_689_512  # as torchvision documents it


def test_equals_monais_resnet18():
    ours = Architecture("resnet18", 3, 4, 64).build()
    theirs = monai_resnet18(
        pretrained=False, spatial_dims=2, n_input_channels=3, num_classes=4, conv1_t_stride=2, bias_downsample=False
    )
    theirs.load_state_dict(ours.state_dict())
    images = torch.rand(2, 3, 64, 64)
    torch.testing.assert_close(ours(images), theirs(images))  # in training mode, which moves the buffers
    torch.testing.assert_close(ours.eval()(images), theirs.eval()(images))


@pytest.mark.parametrize("name", ["resnet18", "resnet18-gn"])
def test_starts_from_a_torchvision_file(tmp_path, name):
    file = tmp_path / "resnet18-imagenet.pth"
    state = imagenet_like(file)
    loaded = Architecture(name, 1, 2, 64, weights=str(file)).build().state_dict()
    torch.testing.assert_close(loaded["conv1.weight"], state["conv1.weight"].sum(1, keepdim=True))
    assert loaded["fc.weight"].shape == (2, 512)
    same = [n for n in loaded if n not in ("conv1.weight", "fc.weight", "fc.bias")]
    assert all(torch.equal(loaded[n], state[n]) for n in same)


def test_a_file_that_lacks_a_layer_is_refused_by_name(tmp_path):
    file = tmp_path / "part.pth"
    imagenet_like(file, drop=("layer3.0.conv1.weight",))
    with pytest.raises(BadInput, match=r"part\.pth .* lacks layer3\.0\.conv1\.weight"):
        Architecture("resnet18", 3, 1000, 64, weights=str(file)).build()


def test_features_lead_to_the_logits():
    model = Architecture("resnet18-gn", 1, 2, 28).build()
    images = torch.rand(2, 1, 28, 28)
    assert model.features(images).shape == (2, 512)
    torch.testing.assert_close(model.fc(model.features(images)), model(images))


def test_group_norm_keeps_patients_apart():
    model = Architecture("resnet18-gn", 1, 2, 28).build()
    assert sum(isinstance(m, nn.GroupNorm) for m in model.modules()) == 20
    images = torch.rand(3, 1, 28, 28)
    torch.testing.assert_close(model(images)[:1], model(images[:1]))
