"""Convolutional highway nets: sizes against the paper's tables, layers, the lesion."""

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.models.catalog import MODELS, create_model
from reslab.models.conv_highway import ConvHighwaySpec
from reslab.nn import GatedMerge, ResidualBlock
from reslab.nn.gates import closed_gates, find_gates

NETS = MODELS.names("highway_*")


def arithmetic(widths, depths, in_channels, head_size):
    """Parameters, from 3x3 convolutions with biases."""
    total, before = 9 * in_channels * widths[0] + widths[0], widths[0]
    for width, depth in zip(widths, depths, strict=True):
        total += (9 * before * width + width) * (before != width)
        total += depth * 2 * (9 * width * width + width)
        before = width
    return total + 10 * widths[-1] * head_size**2 + 10


@pytest.mark.parametrize("name", NETS)
def test_parameters_by_arithmetic(name):
    entry = MODELS.get(name)
    spec = ConvHighwaySpec(**entry.options)
    count = arithmetic(spec.widths, spec.depths, spec.in_channels, spec.head_size)
    assert entry.parameters == count


def test_table_1_has_the_printed_parameters():
    counts = [MODELS.get(f"highway_mnist10_w{width}").parameters for width in (16, 32)]
    assert [round(count / 1000) for count in counts] == [39, 151]


@pytest.mark.parametrize(("depth", "printed"), [(11, 236e3), (19, 2.3e6), (32, 1.25e6)])
def test_table_2_is_met_within_two_percent(depth, printed):
    entry = MODELS.get(f"highway_cifar{depth}")
    assert entry.parameters == pytest.approx(printed, rel=0.02) and entry.depth == depth


@pytest.mark.parametrize("name", NETS)
def test_depth_is_plain_layers_and_gated_layers_and_the_classifier(name):
    with torch.device("meta"):
        net = create_model(name)
    blocks = [m for m in net.modules() if isinstance(m, ResidualBlock)]
    gated = [block for block in blocks if isinstance(block.merge, GatedMerge)]
    assert len(gated) == sum(net.spec.depths)
    assert len(blocks) - len(gated) == net.spec.num_plain
    assert len(blocks) + 1 == net.depth


def test_highway_layers_are_spread_evenly_and_earlier_stages_get_the_rest():
    assert ConvHighwaySpec(depth=19).depths == (5, 5, 5)
    assert ConvHighwaySpec(depth=11).depths == (3, 2, 2)
    assert ConvHighwaySpec(depth=10, widths=[16, 16, 16]).depths == (3, 3, 2)


def test_a_gated_layer_is_the_papers_formula_on_maps():
    net = create_model("conv_highway", depth=6, widths=(4, 6))
    block, x = net.stages[0][0], torch.randn(2, 4, 6, 6)
    h, t = block.branch.linear(x).relu(), block.merge.gate(x).sigmoid()
    assert torch.allclose(block(x), h * t + x * (1 - t), atol=1e-6)
    assert torch.equal(block.merge.gate.bias, torch.full((4,), -2.0))


@pytest.mark.parametrize("name", ["stages.0.1", "stages.1.2", "stages.1.3"])
def test_the_lesion_of_a_layer_equals_a_net_without_that_layer(name):
    torch.manual_seed(0)
    net = create_model("conv_highway", depth=8, widths=(4, 6), gate_bias=0.0).eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad(), closed_gates(net, name):
        lesioned = net(x)
    assert name in find_gates(net)
    stage, position = map(int, name.split(".")[1:])
    net.stages[stage] = nn.Sequential(
        *(b for i, b in enumerate(net.stages[stage]) if i != position)
    )
    with torch.no_grad():
        assert torch.equal(net(x), lesioned)


def test_a_plain_net_has_the_same_depth_and_no_gate():
    net = create_model("highway_cifar11", shortcut="none")
    assert net.depth == 11 and not find_gates(net)
    blocks = [m for m in net.modules() if isinstance(m, ResidualBlock)]
    assert len(blocks) == 10


def test_odd_maps_are_halved_upwards():
    net = create_model("conv_highway", depth=6, widths=(4, 6)).eval()
    assert net.features(torch.zeros(1, 3, 9, 9))["stages.1"].shape == (1, 6, 5, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 6}, "Nearest: 7"),
        ({"depth": 9, "widths": ()}, "widths are wrong"),
        ({"depth": 9, "widths": (8, 0)}, "widths are wrong"),
        ({"depth": 9, "head_size": 0}, "head_size is wrong"),
        ({"depth": 9, "shortcut": "noone"}, "none"),
    ],
)
def test_what_cannot_be_built_is_refused(options, message):
    with pytest.raises(ModelError, match=message):
        create_model("conv_highway", **options)
