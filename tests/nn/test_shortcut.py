"""Shortcuts on their own: what they carry of x, in numbers worked out by hand."""

import math

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.nn import Identity, PadShortcut, Projection, ResidualBlock, Zero, build_shortcut
from reslab.nn.merge import GatedMerge
from reslab.nn.scale import ScaledShortcut
from reslab.nn.shortcut import GatedShortcut, build_gate, shortcut_policy


def zero_branch(channels):
    conv = nn.Conv2d(channels, channels, 1)
    nn.init.zeros_(conv.weight)
    nn.init.zeros_(conv.bias)
    return nn.Sequential(nn.ReLU(), conv)


def constant_gate(channels, bias):
    gate = build_gate(channels, channels, bias=bias)
    nn.init.zeros_(gate.weight)
    return gate


def test_policies_give_the_shortcuts_of_he_2015():
    shapes = {"same": (4, 4, 1), "changed": (4, 8, 2)}
    kinds = {
        policy: [type(build_shortcut(policy, a, b, stride=s)) for a, b, s in shapes.values()]
        for policy in ("none", "zero_pad", "projection", "projection_all")
    }
    assert kinds == {
        "none": [Zero, Zero],
        "zero_pad": [Identity, PadShortcut],
        "projection": [Identity, Projection],
        "projection_all": [Projection, Projection],
    }
    assert shortcut_policy("C") == "projection_all"
    with pytest.raises(ModelError, match="equal shapes"):
        build_shortcut("identity", 4, 8, stride=2)


def test_padding_halves_the_image_and_keeps_its_channels_in_the_middle():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    y = PadShortcut(1, 4, stride=2)(x)
    assert y[0, 1].tolist() == [[0.0, 2.0], [8.0, 10.0]]
    assert y[0, [0, 2, 3]].count_nonzero() == 0


def test_a_projection_without_norm_is_its_convolution():
    torch.manual_seed(0)
    projection = Projection(3, 5, stride=2, norm=False)
    x = torch.randn(2, 3, 6, 6)
    assert torch.equal(projection(x), projection.conv(x))
    assert [name for name, _ in projection.named_parameters()] == ["conv.weight"]
    assert len(list(Projection(3, 5).parameters())) == 3


def test_a_constant_of_one_half_beside_a_zero_branch_halves_x():
    block = ResidualBlock(zero_branch(3), ScaledShortcut(Identity(), 0.5))
    x = torch.randn(2, 3, 4, 4)
    assert torch.equal(block(x), x / 2)


@pytest.mark.parametrize("bias", [0.0, -6.0])
def test_shortcut_only_gating_carries_one_minus_sigmoid_of_the_bias(bias):
    gated = GatedShortcut(constant_gate(3, bias))
    x = torch.randn(2, 3, 4, 4)
    kept = 1 - 1 / (1 + math.exp(-bias))
    assert torch.allclose(gated(x), kept * x, rtol=1e-6, atol=0)
    assert gated.openness(x).allclose(torch.tensor(1 - kept), rtol=1e-4)


def test_gates_that_start_at_minus_6_carry_x_almost_unchanged():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 4)
    branch = nn.Sequential(nn.ReLU(), nn.Conv2d(3, 3, 1))
    exclusive = ResidualBlock(branch, Identity(), merge=GatedMerge(constant_gate(3, -6.0)))
    shortcut_only = ResidualBlock(branch, GatedShortcut(constant_gate(3, -6.0)))
    small = 0.0025  # sigmoid(-6) = 0.00247
    assert (exclusive(x) - x).abs().max() <= small * (branch(x) - x).abs().max()
    assert (shortcut_only(x) - branch(x) - x).abs().max() <= small * x.abs().max()


def test_a_gated_shortcut_gates_what_it_carries():
    torch.manual_seed(0)
    gate = build_gate(2, 4, stride=2, bias=-1.0)
    pad = PadShortcut(2, 4, stride=2)
    x = torch.randn(2, 2, 6, 6)
    expected = (1 - torch.sigmoid(gate(x))) * pad(x)
    assert torch.allclose(GatedShortcut(gate, pad)(x), expected, atol=1e-6)
    assert gate.bias.tolist() == [-1.0] * 4


def test_a_gate_shut_tight_lets_no_rounding_through():
    x = torch.ones(1, 2, 1, 1, dtype=torch.float64)
    gated = GatedShortcut(constant_gate(2, 50.0).double())
    assert gated(x)[0, 0, 0, 0].item() == pytest.approx(math.exp(-50), rel=1e-9)
