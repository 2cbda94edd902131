"""GradInversion's group consistency: the seeds of one observation are drawn towards their mean."""

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from fluoroscope.attacks.gradient_inversion.regularisers import GroupConsistency
from fluoroscope.attacks.gradient_inversion.row_layout import ObjectiveAndGradients, RowEvaluate


def grouped(evaluate: RowEvaluate, consistency: GroupConsistency, owner: Tensor) -> RowEvaluate:
    """Adds the term to `evaluate`. Row i belongs to group `owner[i]`; rows at rest no longer count in its mean."""
    many = vmap(grad_and_value(consistency))

    def with_the_group(images: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        values, to_images, to_logits = evaluate(images, logits, rows)
        group = owner[rows]
        together = (group[:, None] == group).to(images)
        consensus = torch.einsum("rs,s...->r...", together / together.sum(1, keepdim=True), images)
        pulled, apart = many(images, consensus)  # the consensus is given: it has no derivative here
        return values + apart, to_images + pulled, to_logits

    return with_the_group
