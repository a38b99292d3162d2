"""What multiplies a branch: each at its first value, and DeepNorm's table."""

import math

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.nn import Identity, ResidualBlock
from reslab.nn.scale import (
    FixedScale,
    LayerScale,
    LearntScale,
    ScaledShortcut,
    ScaleShift,
    Shift,
    build_scale,
    deepnorm_factors,
)


def branch(width=6):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))


@pytest.mark.parametrize("name", ["skipinit", "rezero"])
def test_a_block_with_a_scalar_of_zero_returns_its_input_and_learns(name):
    block = ResidualBlock(branch(), Identity(), scale=build_scale(name, channels=6, blocks=9))
    x = torch.randn(3, 6)
    assert torch.equal(block(x), x)
    block(x).square().sum().backward()
    assert block.scale.alpha.grad.abs() > 0.01


def test_skipinit_may_start_at_one_over_the_root_of_the_blocks():
    scale = build_scale("skipinit_root", channels=6, blocks=16)
    assert isinstance(scale, LearntScale) and scale.alpha.item() == 0.25


def test_numbers_and_beta_are_fixed_factors():
    x = torch.randn(2, 3)
    assert torch.equal(build_scale(0.1, channels=3, blocks=5)(x), x * 0.1)
    beta = build_scale("beta", channels=3, blocks=25)
    assert isinstance(beta, FixedScale) and torch.equal(beta(x), x * 0.2)
    assert not list(beta.parameters())


@pytest.mark.parametrize("choice", ["none", 1, 1.0])
def test_no_scale_is_built_where_none_is_needed(choice):
    assert build_scale(choice, channels=3, blocks=5) is None


@pytest.mark.parametrize(("shape", "dim"), [((2, 3), 1), ((2, 3, 4, 4), 1), ((2, 5, 3), -1)])
def test_layer_scale_multiplies_each_channel_by_its_own_factor(shape, dim):
    scale = LayerScale(3, dim=dim)
    x = torch.randn(shape)
    assert torch.equal(scale(x), x * 1e-6)
    with torch.no_grad():
        scale.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
    for channel, (scaled, plain) in enumerate(
        zip(scale(x).unbind(dim), x.unbind(dim), strict=True), start=1
    ):
        assert torch.equal(scaled, channel * plain)


@pytest.mark.parametrize(
    "scale", [FixedScale(0.3), LearntScale(0.3), LayerScale(3), Shift(), ScaleShift()]
)
def test_half_precision_stays_half(scale):
    assert scale(torch.ones(2, 3, dtype=torch.bfloat16)).dtype is torch.bfloat16


def test_fixup_scalars_start_as_the_identity():
    x = torch.randn(2, 3)
    assert torch.equal(Shift()(x), x) and torch.equal(ScaleShift()(x), x)


def test_a_scaled_shortcut_multiplies_x():
    x = torch.randn(2, 6)
    block = ResidualBlock(branch(), ScaledShortcut(Identity(), 3.0))
    assert torch.allclose(block(x), 3 * x + block.branch(x))


@pytest.mark.parametrize(
    ("part", "layers", "alpha", "beta"),
    [
        ("encoder", (8, 0), 2.0, 1 / math.sqrt(8)),
        ("decoder", (0, 8), 2.0, 1 / math.sqrt(8)),
        ("decoder", (5, 27), 3.0, 324**-0.25),
        ("encoder", (16, 1), 1.62, 0.435),
        ("encoder", (4, 16), 0.81 * 2**0.75, 0.87 * 2**-0.75),
    ],
)
def test_deepnorm_factors_are_those_of_the_papers_table(part, layers, alpha, beta):
    factors = deepnorm_factors(part, encoder_layers=layers[0], decoder_layers=layers[1])
    assert factors == pytest.approx((alpha, beta))


@pytest.mark.parametrize("choice", ["rezro", True, None])
def test_unknown_scales_are_refused(choice):
    with pytest.raises(ModelError, match="rezero"):
        build_scale(choice, channels=3, blocks=5)


@pytest.mark.parametrize(
    ("part", "layers", "message"),
    [("middle", 3, "encoder or decoder"), ("decoder", 3, "decoder_layers is wrong")],
)
def test_parts_that_do_not_exist_have_no_factors(part, layers, message):
    with pytest.raises(ModelError, match=message):
        deepnorm_factors(part, encoder_layers=layers)
