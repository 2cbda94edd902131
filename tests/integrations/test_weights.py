"""Arrays of other frameworks: read strictly, changed nowhere, and put back in the types that they had."""

import numpy as np
import pytest
import torch

from fluoroscope.errors import Refused
from fluoroscope.integrations.plain_values import LONGEST, check_plain
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


def test_a_picture_written_as_numbers_is_too_long():
    with pytest.raises(Refused, match=str(LONGEST)):
        check_plain({"scan": [0.123456] * 64 * 64}, "metadata")
