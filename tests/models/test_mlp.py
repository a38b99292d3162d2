"""Fully connected nets: depth, width, what grows, what stays the identity, what shatters."""

import pytest
import torch
from torch import nn
from torchvision.ops import StochasticDepth

from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.models.convnet import count_depth
from reslab.nn import ResidualBlock, Zero
from reslab.nn.scale import LayerScale

SMALL = {"in_features": 12, "width": 16, "num_classes": 3}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("name", ["mlp2", "mlp7", "resmlp32", "resmlp302"])
def test_a_name_gives_a_net_of_that_many_weighted_layers(name, order):
    net = create_model(name, order=order, layers_per_block=5, **SMALL)
    assert net.depth == count_depth(net) == int(name.lstrip("resmlp"))
    assert net(torch.randn(4, 12)).shape == (4, 3)


def test_plain_and_residual_nets_have_the_same_parameters():
    shapes = [
        {k: v.shape for k, v in create_model(n).state_dict().items()} for n in ("mlp9", "resmlp9")
    ]
    assert shapes[0] == shapes[1]
    blocks = create_model("mlp9").blocks
    assert len(blocks) == 7 and all(isinstance(b.shortcut, Zero) for b in blocks)


def test_a_plain_net_is_its_layers_in_turn_in_either_order():
    pre, post = (
        create_model("mlp5", order=order, norm="none", activation="tanh", **SMALL)
        for order in ("pre", "post")
    )
    post.load_state_dict(
        dict(zip(post.state_dict(), (v.clone() for v in pre.state_dict().values()), strict=True))
    )
    x = torch.randn(4, 12)
    assert torch.equal(pre(x), post(x))
    layers = [m for m in pre.modules() if isinstance(m, nn.Linear)]
    y = x
    for layer in layers[:-1]:
        y = layer(y).tanh()
    assert torch.equal(layers[-1](y), pre(x))


def test_pictures_are_flattened():
    net = create_model("mlp3", image_size=5, in_channels=2, width=7).eval()
    x = torch.randn(4, 2, 5, 5)
    assert torch.equal(net(x), net(x.flatten(1)))
    assert net.stem.linear.in_features == 50


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "crelu", "prelu"])
@pytest.mark.parametrize("norm", ["none", "batch", "layer"])
@pytest.mark.parametrize("init", ["he", "glorot", "orthogonal"])
def test_activations_norms_and_inits_combine(activation, norm, init):
    net = create_model("resmlp6", activation=activation, norm=norm, init=init, **SMALL)
    net(torch.randn(8, 12)).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("name", ["rezero", "skipinit"])
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_blocks_with_a_scalar_of_zero_return_exactly_their_input(name, norm):
    net = create_model("resmlp52", branch_scale=name, norm=norm, **SMALL)
    x = torch.randn(8, 16)
    assert torch.equal(net.blocks(x), x)


def test_layer_scale_is_a_branch_times_a_millionth():
    block = create_model("resmlp4", branch_scale="layer_scale", norm="none", **SMALL).blocks[0]
    x = torch.zeros(8, 16)
    x[:, 0] = torch.arange(8.0)
    assert isinstance(block.scale, LayerScale)
    assert torch.allclose(block(x), x + 1e-6 * block.branch(x), rtol=1e-7)


def variance_ratio(blocks, *, norm, scale):
    """Variance of the last block's output over that of the first block's input, training mode."""
    net = create_model(
        "mlp", depth=blocks + 2, in_features=400, width=400, norm=norm, branch_scale=scale
    )
    with torch.no_grad():
        x = torch.randn(256, 400)
        return (net.blocks(x).var() / x.var()).item()


@pytest.mark.parametrize("blocks", [10, 50])
def test_beta_scaling_holds_the_variance_at_one_plus_beta_squared_blocks(blocks):
    assert variance_ratio(blocks, norm="batch", scale=1) == pytest.approx(1 + blocks, rel=0.1)
    assert variance_ratio(blocks, norm="batch", scale=0.1) == pytest.approx(
        1 + 0.01 * blocks, rel=0.1
    )
    assert variance_ratio(blocks, norm="batch", scale="beta") == pytest.approx(2, rel=0.1)


def test_without_norms_each_residual_block_doubles_the_variance():
    assert variance_ratio(10, norm="none", scale=1) == pytest.approx(2**10, rel=0.3)


def test_gradients_vanish_in_a_plain_net_of_sigmoids_and_not_in_a_residual_one():
    norms = []
    for name in ("mlp30", "resmlp30"):
        net = create_model(name, activation="sigmoid", norm="none", init="glorot", **SMALL)
        net(torch.randn(8, 12)).square().sum().backward()
        norms.append(net.stem.linear.weight.grad.norm().item())
    assert norms[0] < 1e-8 and norms[1] > 1e-2


@pytest.mark.parametrize("blocks", [1, 54, 100])
def test_the_linear_rule_keeps_three_quarters_of_the_blocks_on_average(blocks):
    net = create_model("mlp", depth=blocks + 2, drop_path=0.5, **SMALL)
    rates = [m.p for m in net.modules() if isinstance(m, StochasticDepth)]
    assert len(rates) == blocks and rates[-1] == 0.5
    assert sum(1 - rate for rate in rates) == pytest.approx((3 * blocks - 1) / 4)


LINE = torch.linspace(-2, 2, 256)[:, None]


def gradient_correlation(name, **options):
    """Autocorrelation at lag 1 of df/dx at neighbours on the line, mean of six nets.

    Batch statistics are those of the line, held fixed, so that each x has its own derivative.
    """
    found = []
    for seed in range(6):
        torch.manual_seed(seed)
        net = create_model(name, **options)
        for module in net.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.momentum = 1.0
        net(LINE)
        x = LINE.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(net.eval()(x).sum(), x)
        centred = (gradient - gradient.mean()).flatten()
        found.append((centred[1:] * centred[:-1]).mean() / centred.square().mean())
    return torch.stack(found).mean().item()


def test_gradients_shatter_in_plain_nets_and_less_in_residual_ones():
    """Balduzzi 2017, figures 1 and 2: brown noise, white noise, between, brown again."""
    assert gradient_correlation("shattering_mlp1") > 0.95
    assert abs(gradient_correlation("shattering_mlp24")) < 0.2
    assert 0.4 < gradient_correlation("shattering_resmlp50") < 0.8
    assert gradient_correlation("shattering_resmlp50", branch_scale=0.1) > 0.85


def test_every_block_is_a_residual_block_that_keeps_the_protocol():
    net = create_model("resmlp10", drop_path=0.2, checkpoint_activations=True, **SMALL)
    assert all(isinstance(b, ResidualBlock) and b.checkpoint_activations for b in net.blocks)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mlp1", {}, "Nearest: 2"),
        ("mlp9", {"layers_per_block": 3}, "Nearest: 8 or 11"),
        ("resmlp10", {"shortcut": "projection"}, "unknown shortcut"),
        ("resmlp10", {"activation": "crelu", "order": "post"}, "order='pre'"),
        ("resmlp10", {"order": "post"}, "single linear map"),
        ("resmlp10", {"norm": "group"}, "unknown norm"),
        ("resmlp10", {"width": 0}, "width is wrong"),
        ("resmlp10", {"image_size": None}, "Give image_size or in_features"),
        ("resmlp10", {"in_features": 0}, "in_features is wrong"),
        ("resmlp10", {"drop_path": 1.0}, "drop_path is wrong"),
        ("resmlp10", {"bias_std": -1.0}, "bias_std is wrong"),
        ("mlp10", {"init": "fixup", "norm": "none"}, "needs residual branches"),
        ("resmlp10", {"init": "looks_linear"}, "can start linear"),
        ("resmlp10", {"branch_scale": "betta"}, "Did you mean beta"),
    ],
)
def test_what_cannot_be_built_is_refused(name, options, message):
    with pytest.raises(ModelError, match=message):
        create_model(name, **options)
