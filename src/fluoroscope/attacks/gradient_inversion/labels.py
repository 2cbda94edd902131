"""Labels from the update of the last dense layer, without the images."""

import torch
from torch import Tensor

from fluoroscope.errors import Unsupported


def last_dense_layer(update: dict[str, Tensor], classes: int) -> tuple[Tensor, Tensor | None]:
    """The last dense layer's weight and bias in an update that is in the order of the network."""
    for name in reversed(list(update)):
        value = update[name]
        if value.ndim == 2 and value.shape[0] == classes:
            return value, update.get(f"{name.removesuffix('weight')}bias")
    raise Unsupported(f"the update has no dense layer of {classes} rows: its labels cannot be read from it.")


def sign_label(weight_gradient: Tensor, bias_gradient: Tensor | None = None) -> int:
    """iDLG: of one image, the only row that pushes the other way is its label's.

    The bias's gradient is p_c - y_c, negative for the label alone. Without a bias, row c of the weight's is (p_c - y_c)
    times the features: of three rows or more the label's points against all the others, whatever the signs of the
    features; of two rows neither does, and features behind a ReLU or sigmoid, which are positive, decide.
    """
    if bias_gradient is not None:
        return int(bias_gradient.argmin())
    if len(weight_gradient) == 2:
        return int(weight_gradient.sum(1).argmin())
    agreement = weight_gradient @ weight_gradient.T
    others = agreement.sum(1) - agreement.diagonal()
    return int(others.argmin())


def restored_counts(bias_gradient: Tensor, images: int, expected: Tensor) -> Tensor:
    """How often each class occurs in a batch, from the gradient of the last bias.

    db_c = mean_i (p_ic - y_ic), so the count of class c is n (mean p_c - db_c); `expected` is the attacker's estimate
    of the mean prediction, such as the model's on public images. Rounded to whole counts that add up to n by the
    largest remainder.
    """
    wanted = (images * (expected - bias_gradient)).clamp_min(0).double()
    wanted *= images / wanted.sum().clamp_min(torch.finfo(torch.float64).tiny)
    counts = wanted.floor()
    left = images - int(counts.sum())
    counts[torch.argsort(wanted - counts, descending=True)[:left]] += 1
    return counts.long()
