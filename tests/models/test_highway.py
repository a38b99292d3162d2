"""Fully connected highway nets: the paper's counts, coupled gates, the lesion."""

import math

import pytest
import torch
from torch import nn

from reslab.errors import ModelError, UnknownNameError
from reslab.models.catalog import MODELS, create_model
from reslab.models.cost import count_parameters
from reslab.models.highway import SoftmaxLayer
from reslab.nn import GatedMerge, ResidualBlock
from reslab.nn.gates import closed_gates, gate_activations


def small(**options):
    torch.manual_seed(0)
    return create_model("highway", **({"depth": 6, "width": 12, "image_size": 4} | options))


def images():
    return torch.randn(5, 1, 4, 4)


def test_a_highway_layer_of_50_units_and_a_plain_one_of_71_have_about_5000_parameters():
    """Srivastava 2015, section 3.1."""
    sizes = [count_parameters(create_model(n).blocks[0]) for n in ("highway10", "plain_fc10")]
    assert sizes == [2 * (50 * 50 + 50), 71 * 71 + 71] == [5100, 5112]


@pytest.mark.parametrize("depth", [10, 20, 50, 100])
@pytest.mark.parametrize(("kind", "width", "maps"), [("highway", 50, 2), ("plain_fc", 71, 1)])
def test_parameters_by_arithmetic(kind, width, maps, depth):
    stem, layer, classifier = 784 * width + width, maps * (width + 1) * width, 10 * width + 10
    entry = MODELS.get(f"{kind}{depth}")
    assert entry.parameters == stem + (depth - 1) * layer + classifier
    assert entry.macs == 784 * width + (depth - 1) * maps * width**2 + 10 * width


@pytest.mark.parametrize("depth", [10, 20, 50, 100])
def test_the_first_layer_is_plain_and_all_others_are_gated(depth):
    net = create_model(f"highway{depth}")
    assert len(net.blocks) == depth - 1
    assert all(isinstance(block.merge, GatedMerge) for block in net.blocks)
    assert not any(isinstance(m, GatedMerge) for m in net.stem.modules())


def test_any_depth_can_be_asked_for_by_name():
    assert create_model("highway30").depth == 30
    assert create_model("plain_fc3").spec.width == 71


def test_a_block_is_the_papers_formula():
    net = small(activation="tanh")
    block, x = net.blocks[0], torch.randn(3, 12)
    h = torch.tanh(x @ block.branch.linear.weight.T + block.branch.linear.bias)
    t = torch.sigmoid(x @ block.merge.gate.weight.T + block.merge.gate.bias)
    assert torch.allclose(block(x), h * t + x * (1 - t), atol=1e-6)


def test_gates_start_at_their_bias():
    biases = [block.merge.gate.bias for block in small(gate_bias=-4.0).blocks]
    assert all(torch.equal(bias, torch.full((12,), -4.0)) for bias in biases)
    seen = gate_activations(small(gate_bias=-4.0), torch.zeros(1, 1, 4, 4))
    at_zero = seen["blocks.0"]  # the stem has no bias at first: its output is zero
    assert torch.allclose(at_zero, torch.full((1, 12), 1 / (1 + math.exp(4))))


def test_at_a_gate_bias_of_minus_20_every_block_is_the_identity():
    net = small(gate_bias=-20.0, depth=20)
    x = torch.randn(8, 12)
    for block in net.blocks:
        assert torch.allclose(block(x), x, atol=1e-6, rtol=0)
    assert torch.allclose(net.blocks(x), x, atol=1e-6, rtol=0)
    assert not torch.allclose(small().blocks(x), x, atol=1e-2)


@pytest.mark.parametrize("layer", range(5))
def test_the_lesion_of_a_layer_equals_a_net_without_that_layer(layer):
    net, x = small(), images()
    shorter = small(depth=5)
    shorter.stem, shorter.head = net.stem, net.head
    shorter.blocks = nn.Sequential(*(b for i, b in enumerate(net.blocks) if i != layer))
    before = net(x)
    with closed_gates(net, layer):
        assert torch.equal(net(x), shorter(x))
    assert torch.equal(net(x), before) and not torch.equal(before, shorter(x))


def test_a_plain_net_is_the_product_of_its_layers():
    net, x = small(shortcut="none"), images()
    expected = net.stem(x)
    for block in net.blocks:
        expected = block.branch(expected)
    assert torch.equal(net(x), net.head(expected))
    assert net.spec.width == 12 and not any("merge" in name for name in net.state_dict())


def test_the_gradient_reaches_the_first_layer_of_a_deep_highway_net_and_not_of_a_plain_one():
    """With tanh and a small initial scale the plain net's gradient vanishes; carried, it does not."""
    norms = {}
    for shortcut in ("identity", "none"):
        net = small(depth=50, shortcut=shortcut, activation="tanh")
        with torch.no_grad():
            for block in net.blocks:
                block.branch.linear.weight.mul_(0.3)
        net(images()).logsumexp(1).sum().backward()
        norms[shortcut] = net.stem.linear.weight.grad.norm().item()
    assert norms["none"] < 1e-6 * norms["identity"]


def test_transforms_start_with_he_variance_and_the_seed_decides():
    torch.manual_seed(0)
    net = create_model("highway", depth=2, width=400)
    weight = net.blocks[0].branch.linear.weight
    assert weight.std().item() == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert torch.equal(small().stem.linear.weight, small().stem.linear.weight)


def test_the_softmax_layer_is_an_affine_map():
    layer = SoftmaxLayer(3, 2)
    x = torch.randn(4, 3)
    assert torch.allclose(layer(x), x @ layer.weight.T + layer.bias)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 1}, "Nearest: 2"),
        ({"depth": 4, "shortcut": "identiti"}, "identity"),
        ({"depth": 4, "activation": "rely"}, "relu"),
        ({"depth": 4, "width": 0}, "width is wrong"),
        ({"depth": 4, "image_size": 2.5}, "image_size is wrong"),
        ({"depth": 4, "gate_bias": "low"}, "gate_bias is wrong"),
        ({"depth": 4, "gate_bias": float("nan")}, "gate_bias is wrong"),
        ({"depth": 4, "checkpoint_activations": 1}, "checkpoint_activations is wrong"),
        ({}, "needs a depth"),
    ],
)
def test_what_cannot_be_built_is_refused(options, message):
    with pytest.raises(ModelError, match=message):
        create_model("highway", **options)


def test_misspelt_options_and_images_of_another_size_are_named():
    with pytest.raises(UnknownNameError, match="gate_bias"):
        create_model("highway10", gate_bais=-3)
    with pytest.raises(ModelError, match=r"\(3, 32, 32\).*\(1, 28, 28\)"):
        create_model("highway10")(torch.zeros(1, 3, 32, 32))


def test_every_layer_is_a_residual_block_that_can_be_checkpointed():
    net = small(checkpoint_activations=True)
    blocks = [m for m in net.modules() if isinstance(m, ResidualBlock)]
    assert len(blocks) == 5 and all(block.checkpoint_activations for block in blocks)
