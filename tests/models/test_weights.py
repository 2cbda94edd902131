import os
import pickle

import pytest
import torch
from safetensors.torch import save_file

from fluoroscope.errors import BadInput
from fluoroscope.models import Architecture
from fluoroscope.models.state_files import read_state


def small(channels=1, classes=2, weights=None, seed=0):
    return Architecture("small-cnn", channels, classes, 28, None if weights is None else str(weights)).build(seed)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".safetensors"])
def test_reads_every_kind_of_file(tmp_path, suffix):
    state = small().state_dict()
    file = tmp_path / f"weights{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(state, file)
    read = read_state(file)
    assert read.keys() == state.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in state.items())


class MaliciousServer:
    def __reduce__(self):
        return (os.mkdir, ("harm",))


@pytest.mark.parametrize("write", [torch.save, lambda thing, file: file.write_bytes(pickle.dumps(thing, protocol=2))])
def test_a_pickle_with_code_is_refused_and_not_run(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "trojan.pt"
    write({"conv1.weight": torch.zeros(1), "more": MaliciousServer()}, file)
    with pytest.raises(BadInput, match=r"trojan\.pt was not read: .* code"):
        small(weights=file)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".safetensors"])
@pytest.mark.parametrize("content", [b"", b"no weights at all", b"\x80\x02", b"PK\x03\x04 half a zip"])
def test_a_damaged_file_is_named(tmp_path, suffix, content):
    file = tmp_path / f"damaged{suffix}"
    file.write_bytes(content)
    with pytest.raises(BadInput, match=r"damaged\."):
        read_state(file)


def test_a_truncated_file_is_named(tmp_path):
    file = tmp_path / "cut.pt"
    torch.save(small().state_dict(), file)
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(BadInput, match=r"cut\.pt was not read"):
        read_state(file)


def test_other_contents_absent_files_and_other_kinds_are_named(tmp_path):
    torch.save({"epoch": 3, "state": {}}, tmp_path / "checkpoint.pt")
    with pytest.raises(BadInput, match=r"checkpoint\.pt holds no state dict"):
        read_state(tmp_path / "checkpoint.pt")
    with pytest.raises(BadInput, match=r"there is no weights file .*absent\.pt"):
        small(weights=tmp_path / "absent.pt")
    (tmp_path / "weights.onnx").touch()
    with pytest.raises(BadInput, match=r"'\.onnx'; weights are read from"):
        read_state(tmp_path / "weights.onnx")


def test_mismatches_are_named(tmp_path):
    state = small().state_dict()
    state["surplus"] = state.pop("body.1.weight")
    state["body.4.weight"] = torch.zeros(64, 16, 3, 3)
    file = tmp_path / "other.pt"
    torch.save(state, file)
    with pytest.raises(BadInput) as caught:
        small(weights=file)
    for words in (
        "other.pt",
        "lacks body.1.weight",
        "besides surplus",
        "body.4.weight (64, 16, 3, 3) instead of (32, 16",
    ):
        assert words in str(caught.value)


def test_a_foreign_file_is_named_in_short(tmp_path):
    file = tmp_path / "foreign.pt"
    torch.save(Architecture("lenet5", 1, 2, 28).build().state_dict(), file)
    with pytest.raises(BadInput, match=r"and \d+ more") as caught:
        Architecture("resnet18", 1, 2, 28, weights=str(file)).build()
    assert len(str(caught.value)) < 600


def test_another_number_of_classes_gets_a_fresh_head(tmp_path):
    file = tmp_path / "two.pt"
    torch.save(small(classes=2).state_dict(), file)
    fresh, loaded = small(classes=4, seed=1).state_dict(), small(classes=4, weights=file, seed=1).state_dict()
    assert torch.equal(loaded["fc.weight"], fresh["fc.weight"])
    assert torch.equal(loaded["body.0.weight"], small().state_dict()["body.0.weight"])


def test_a_grey_network_sees_a_grey_image_as_its_rgb_copy_was_seen(tmp_path):
    colour = small(channels=3).eval()
    file = tmp_path / "rgb.pt"
    torch.save(colour.state_dict(), file)
    grey = small(channels=1, weights=file).eval()
    images = torch.rand(2, 1, 28, 28)
    torch.testing.assert_close(grey(images), colour(images.repeat(1, 3, 1, 1)))


def test_files_without_batch_counters_are_read(tmp_path):
    model = small()
    file = tmp_path / "old.pt"
    torch.save({k: v for k, v in model.state_dict().items() if "num_batches" not in k}, file)
    loaded = small(weights=file, seed=1).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model."])
def test_a_wrapped_networks_file_starts_the_network(tmp_path, prefix):
    """`torch.save(DataParallel(net).state_dict(), ...)` is the network's file all the same."""
    state = small(seed=1).state_dict()
    torch.save({f"{prefix}{name}": value for name, value in state.items()}, tmp_path / "wrapped.pt")
    assert all(
        torch.equal(value, state[name]) for name, value in small(weights=tmp_path / "wrapped.pt").state_dict().items()
    )
