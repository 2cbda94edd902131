"""Arrays of other frameworks: read strictly, changed nowhere, and put back in the types that they had."""

import numpy as np
import pytest
import torch

from fluoroscope.errors import Refused
from fluoroscope.integrations.plain_values import MOST_CHARACTERS, MOST_NUMBERS, check_plain
from fluoroscope.integrations.weights import Weights, tensors

BEFORE = {"w": torch.tensor([1.0, 2.0]), "n": torch.tensor(3)}


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.5, 2.5], np.float32),
        np.array([1.5, 2.5], np.float16),
        np.array([1.5, 2.5], ">f8"),
        np.array([1.5, 9, 2.5, 9])[::2],
        torch.tensor([1.5, 2.5], dtype=torch.bfloat16),
        torch.tensor([1.5, 2.5], requires_grad=True),
    ],
)
def test_numbers_of_any_kind_are_copied(value):
    (read,) = tensors({"w": value}).values()
    assert read.tolist() == [1.5, 2.5]
    read.zero_()
    assert value.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("value", [np.float64(2.0), 2.0, 2, np.array(2)])
def test_an_average_that_became_a_plain_number_is_an_array_again(value):
    assert tensors({"n": value})["n"] == 2


@pytest.mark.parametrize(
    "arrays",
    [
        None,
        {},
        [np.zeros(2)],
        {"w": "picture"},
        {"w": b"picture"},
        {"w": np.array(["picture"])},
        {"w": np.array([{}], dtype=object)},
        {"w": np.zeros(2, complex)},
        {"w": {"inner": np.zeros(2)}},
        {"w": None},
        {"w": torch.zeros(2).to_sparse()},
        {"w": torch.zeros(2, device="meta")},
        {0: np.zeros(2)},
    ],
)
def test_whatever_is_no_array_of_numbers_is_refused(arrays):
    with pytest.raises(Refused):
        tensors(arrays)


def test_arrays_that_the_received_model_does_not_have_are_refused():
    with pytest.raises(Refused, match="a name that the received model does not have") as caught:
        Weights({"patient-4711": np.zeros(2)}).after(BEFORE)
    assert "4711" not in str(caught.value)
    with pytest.raises(Refused, match="another shape"):
        Weights({"w": np.zeros(200)}).after(BEFORE)


def test_differences_are_added_to_the_model_before():
    after = Weights({"w": np.array([0.5, -1.0], np.float32)}, difference=True).after(BEFORE)
    assert after["w"].tolist() == [1.5, 1.0]
    assert BEFORE["w"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("difference", [False, True])
def test_what_was_not_changed_stays_the_very_array(difference):
    arrays = {"w": np.array([0.1, 0.2], np.float32), "n": np.float64(4)}
    weights = Weights(arrays, difference)
    held = weights.holding(weights.after(BEFORE), BEFORE)
    assert all(held[name] is arrays[name] for name in arrays)


@pytest.mark.parametrize("make", [lambda x: np.array(x, np.float16), lambda x: torch.tensor(x, dtype=torch.float64)])
def test_other_values_come_in_the_type_of_the_array(make):
    array = make([1.25, 2.25])
    held = Weights({"w": array}).holding({"w": torch.tensor([7.0, 8.0])}, BEFORE)["w"]
    assert type(held) is type(array)
    assert held.dtype == array.dtype
    assert held.tolist() == [7.0, 8.0]
    changed = Weights({"w": array}, difference=True).holding({"w": torch.tensor([7.0, 8.0])}, BEFORE)["w"]
    assert changed.tolist() == [6.0, 6.0]


def test_counters_are_rounded_and_stay_whole_numbers():
    held = Weights({"n": np.array(4)}).holding({"n": torch.tensor(5.6)}, BEFORE)["n"]
    assert held.dtype == np.int64
    assert held == 6


@pytest.mark.parametrize(("difference", "expected"), [(False, [1.0, 2.0]), (True, [0.0, 0.0])])
def test_what_stays_at_the_site_is_the_servers_own_value_there(difference, expected):
    held = Weights({"w": np.array([9.0, 9.0])}, difference).holding({}, BEFORE)
    assert held["w"].tolist() == expected


def test_plain_values_pass_and_hidden_ones_do_not():
    check_plain({"loss": 0.1, "steps": np.int64(3), "names": ["a", None, True], "nested": {"x": (1, 2)}}, "metadata")
    for hidden in (np.zeros(3), torch.zeros(3), b"x", {"deep": [{"er": np.zeros(2)}]}, object()):
        with pytest.raises(Refused, match="beside the weights"):
            check_plain({"scan": hidden}, "metadata")


@pytest.mark.parametrize(
    "scan", [[0] * (MOST_NUMBERS + 1), [[0.1] * 20] * 20, {i: i for i in range(200)}, [None] * 300, [True] * 300]
)
def test_a_picture_written_as_numbers_is_too_long(scan):
    with pytest.raises(Refused, match=f"at most {MOST_NUMBERS}"):
        check_plain({"scan": scan}, "metadata")


@pytest.mark.parametrize(
    "scan", ["x" * MOST_CHARACTERS, ["x" * 9] * 500, {f"{i:050d}": 1 for i in range(100)}, "\u00e9" * 2100]
)
def test_a_picture_written_as_text_is_too_long(scan):
    with pytest.raises(Refused, match=f"at most {MOST_CHARACTERS}"):
        check_plain({"scan": scan}, "metadata")


def test_a_picture_written_as_one_number_is_none():
    check_plain({"steps": 2**64 - 1, "least": -(2**63)}, "metadata")
    for value in (int.from_bytes(b"picture" * 900), np.longdouble(1), 1j, np.complex64(1)):
        with pytest.raises(Refused, match="beside the weights"):
            check_plain({"scan": value}, "metadata")


def test_bytes_pass_only_where_a_framework_has_them_and_count_as_text():
    check_plain({"key": b"x" * 64}, "records", allow_bytes=True)
    for value, allowed in ((b"x", False), (b"x" * 5000, True)):
        with pytest.raises(Refused):
            check_plain({"key": value}, "records", allow_bytes=allowed)


@pytest.mark.parametrize("difference", [False, True])
@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.module."])
def test_a_wrappers_names_are_the_models_and_are_given_back(difference, prefix):
    arrays = {f"{prefix}w": np.array([1.5, 2.5], np.float32), f"{prefix}n": np.array(4)}
    weights = Weights(arrays, difference)
    after = weights.after(BEFORE)
    assert after.keys() == BEFORE.keys()
    assert all(held is arrays[name] for name, held in weights.holding(after, BEFORE).items())
    changed = weights.holding({"w": torch.tensor([7.0, 8.0])}, BEFORE)
    assert changed.keys() == arrays.keys()
    assert changed[f"{prefix}w"].tolist() == ([6.0, 6.0] if difference else [7.0, 8.0])
    with pytest.raises(Refused, match="a name that the received model does not have"):
        Weights({**arrays, "scan": np.zeros(2)}).after(BEFORE)
