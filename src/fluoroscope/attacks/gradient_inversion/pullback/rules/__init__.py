"""One rule an operation: `RULES` says how a node of a traced network is computed in the four sweeps."""

from collections.abc import Callable

import torch

from fluoroscope.attacks.gradient_inversion.pullback.rules import (
    batch_norm,
    convolution,
    dense,
    group_norm,
    pointwise,
    pooling,
    shape,
)
from fluoroscope.attacks.gradient_inversion.pullback.rules.op import Use

aten = torch.ops.aten

RULES: dict[object, Callable[..., Use]] = {
    aten.convolution.default: convolution.convolution,
    aten.native_batch_norm.default: batch_norm.batch_norm,
    aten.native_group_norm.default: group_norm.group_norm,
    aten.addmm.default: dense.addmm,
    aten.mm.default: dense.mm,
    aten.relu.default: pointwise.relu,
    aten.hardtanh.default: pointwise.hardtanh,
    aten.sigmoid.default: pointwise.sigmoid,
    aten.add.Tensor: pointwise.add,
    aten.sub.Tensor: pointwise.sub,
    aten.mul.Tensor: pointwise.mul,
    aten.div.Tensor: pointwise.div,
    aten.max_pool2d_with_indices.default: pooling.max_pool,
    aten.avg_pool2d.default: pooling.avg_pool,
    aten._adaptive_avg_pool2d.default: pooling.adaptive_avg_pool,
    aten.mean.dim: pooling.mean,
    aten.view.default: shape.view,
    aten._unsafe_view.default: shape.view,
    aten.t.default: shape.t,
    aten.constant_pad_nd.default: shape.pad,
    aten.clone.default: shape.same,
    aten.detach.default: shape.same,
    aten.alias.default: shape.same,
}
