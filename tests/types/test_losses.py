"""A client's loss on its own labels and on the soft ones that an attacker guesses."""

import pytest
import torch
import torch.nn.functional as F

from fluoroscope.attacks.gradient_inversion.pullback.rules.loss import AnyLoss, PlainCrossEntropy, loss_rule
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.types import BinaryCrossEntropy, CrossEntropy, CustomLoss

G = torch.Generator().manual_seed(0)
OUTPUTS = torch.randn(5, 3, generator=G, dtype=torch.float64)
CLASSES = torch.tensor([0, 2, 1, 1, 0])
FINDINGS = torch.randint(2, (5, 3), generator=G).double()
LOSSES = [CrossEntropy(), CrossEntropy((1.0, 2.0, 0.0)), CrossEntropy((1.0, 2.0, 3.0), 0.2), BinaryCrossEntropy()]


@pytest.mark.parametrize("loss", LOSSES[:3], ids=str)
def test_cross_entropy_is_torch_s_and_a_certain_probability_is_its_class(loss):
    weights = None if loss.class_weights is None else OUTPUTS.new_tensor(loss.class_weights)
    expected = F.cross_entropy(OUTPUTS, CLASSES, weights, label_smoothing=loss.label_smoothing)
    torch.testing.assert_close(loss(OUTPUTS, CLASSES), expected)
    torch.testing.assert_close(loss(OUTPUTS, F.one_hot(CLASSES, 3).double()), expected)
    each = F.cross_entropy(OUTPUTS, CLASSES, weights, label_smoothing=loss.label_smoothing, reduction="none")
    torch.testing.assert_close(loss.per_image(OUTPUTS, CLASSES), each)
    torch.testing.assert_close(loss.per_image(OUTPUTS, F.one_hot(CLASSES, 3).double()), each)


def test_several_findings_are_torch_s_binary_cross_entropy():
    weighed = BinaryCrossEntropy((2.0, 1.0, 0.5))
    expected = F.binary_cross_entropy_with_logits(OUTPUTS, FINDINGS, pos_weight=OUTPUTS.new_tensor([2.0, 1.0, 0.5]))
    torch.testing.assert_close(weighed(OUTPUTS, FINDINGS), expected)
    assert weighed.multi_label
    with pytest.raises(Misconfigured, match="a number per output"):
        weighed(OUTPUTS, CLASSES)


def test_a_callable_is_called_and_what_it_cannot_do_is_said():
    loss = CustomLoss(F.cross_entropy)
    torch.testing.assert_close(loss(OUTPUTS, CLASSES), F.cross_entropy(OUTPUTS, CLASSES))
    with pytest.raises(Unsupported, match="must give one number"):
        CustomLoss(lambda o, t: o)(OUTPUTS, CLASSES)
    with pytest.raises(Unsupported, match="does not take outputs"):
        CustomLoss(F.multi_margin_loss)(OUTPUTS, F.one_hot(CLASSES, 3).double())


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: CrossEntropy((-1.0, 2.0)), "0 or more"),
        (lambda: CrossEntropy(label_smoothing=1.0), "below 1, not 1"),
        (lambda: CrossEntropy((1.0, 2.0))(OUTPUTS, CLASSES), "2 numbers for 3 classes"),
        (lambda: BinaryCrossEntropy((1.0,))(OUTPUTS, FINDINGS), "1 numbers for 3 classes"),
    ],
)
def test_settings_out_of_range_are_named(made, words):
    with pytest.raises(Misconfigured, match=words):
        made()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_free_numbers_become_soft_labels_and_derivatives_come_back(loss):
    logits = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    cotangent = torch.randn(5, 3, dtype=torch.float64)
    soft = loss.soft(logits)
    (expected,) = torch.autograd.grad(soft, logits, cotangent)
    torch.testing.assert_close(loss.pulled(soft.detach(), cotangent), expected)


@pytest.mark.parametrize("loss", [*LOSSES, CustomLoss(F.cross_entropy)], ids=lambda loss: type(loss).__name__)
def test_tangent_rules_are_autograd_s(loss):
    """The rule of any loss against finite differences of its own cotangent."""
    labels, tangent = loss.soft(torch.randn(5, 3, dtype=torch.float64)), torch.randn(5, 3, dtype=torch.float64)
    rule, step = loss_rule(loss, OUTPUTS, labels), 1e-6
    to_outputs, to_labels = rule.tangent_backward(tangent)
    ahead, behind = (loss_rule(loss, OUTPUTS + h * tangent, labels).backward() for h in (step, -step))
    torch.testing.assert_close(to_outputs, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-8)
    moved = torch.randn(5, 3, dtype=torch.float64)
    up, down = ((loss_rule(loss, OUTPUTS, labels + h * moved).backward() * tangent).sum() for h in (step, -step))
    torch.testing.assert_close((to_labels * moved).sum(), (up - down) / (2 * step), rtol=1e-5, atol=1e-8)


def test_the_closed_form_of_plain_cross_entropy_is_the_general_rule():
    labels, tangent = torch.rand(5, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    fast, general = PlainCrossEntropy(OUTPUTS, labels), AnyLoss(CrossEntropy(), OUTPUTS, labels)
    torch.testing.assert_close(fast.loss, general.loss)
    torch.testing.assert_close(fast.backward(), general.backward())
    for ours, theirs in zip(fast.tangent_backward(tangent), general.tangent_backward(tangent), strict=True):
        torch.testing.assert_close(ours, theirs)
