"""Gates: coupled, seen from outside, shut and opened again."""

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.nn import GatedMerge, Identity, ResidualBlock
from reslab.nn.gates import closed_gates, find_gates, gate_activations


def hooks(net):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())


def gated(width=4):
    branch = nn.Sequential(nn.Linear(width, width), nn.ReLU())
    return ResidualBlock(branch, Identity(), merge=GatedMerge(nn.Linear(width, width)))


def test_carry_is_one_minus_transform():
    block, x = gated(), torch.randn(3, 4)
    transform = torch.sigmoid(block.merge.gate(x))
    expected = transform * block.branch(x) + (1 - transform) * x
    assert torch.allclose(block(x), expected, atol=1e-7)
    assert torch.equal(block.merge.openness(x), transform)


@pytest.mark.parametrize(("bias", "side"), [(-200.0, "shortcut"), (200.0, "branch")])
def test_a_gate_at_its_end_gives_one_side_bit_for_bit(bias, side):
    block, x = gated(), torch.randn(3, 4)
    nn.init.constant_(block.merge.gate.bias, bias)
    assert torch.equal(block(x), getattr(block, side)(x))


def test_sides_of_different_dtypes_meet_in_the_wider_one():
    merge = GatedMerge(Identity())
    narrow = torch.ones(2, dtype=torch.bfloat16)
    assert merge(torch.ones(2), narrow, narrow).dtype == torch.float32


def test_activations_are_the_sigmoid_of_each_gate_at_its_input():
    net = nn.Sequential(gated(), nn.ReLU(), gated())
    x = torch.randn(3, 4)
    seen = gate_activations(net, x)
    assert list(seen) == ["0", "2"]
    assert torch.equal(seen["0"], torch.sigmoid(net[0].merge.gate(x)))
    assert torch.equal(seen["2"], torch.sigmoid(net[2].merge.gate(net[1](net[0](x)))))
    assert not seen["2"].requires_grad


def test_convolutional_gates_have_a_value_for_every_pixel():
    net = create_model("conv_highway", depth=5, widths=(4, 6))
    shapes = {k: tuple(v.shape) for k, v in gate_activations(net, torch.randn(2, 3, 8, 8)).items()}
    assert shapes == {
        "stages.0.0": (2, 4, 8, 8),
        "stages.1.2": (2, 6, 4, 4),
    }


def test_gates_that_are_called_in_every_step_are_stacked_over_time():
    net = create_model("rhn_tiny", width=8)
    seen = gate_activations(net, torch.randint(1, 10, (3, 5)))
    assert [tuple(v.shape) for v in seen.values()] == [(5, 3, 8)] * 4


def test_measuring_leaves_modes_statistics_and_hooks_alone():
    net = nn.Sequential(nn.BatchNorm1d(4), gated(), nn.Dropout(0.5).eval())
    before = net[0].running_mean.clone()
    gate_activations(net, torch.randn(8, 4))
    assert torch.equal(net[0].running_mean, before)
    assert [m.training for m in net] == [True, True, False] and hooks(net) == 0


def test_an_exception_leaves_no_hook_and_no_mode_behind():
    net = nn.Sequential(gated(), gated())
    with pytest.raises(RuntimeError, match="shapes"):
        gate_activations(net, torch.randn(2, 7))
    assert hooks(net) == 0 and net.training
    with pytest.raises(KeyError), closed_gates(net, 1):
        raise KeyError("inside")
    assert hooks(net) == 0


@pytest.mark.parametrize("layer", [1, "1"])
def test_a_closed_layer_copies_its_input_and_opens_again(layer):
    net, x = nn.Sequential(gated(), gated(), gated()), torch.randn(3, 4)
    before = net(x)
    with closed_gates(net, layer):
        assert torch.equal(net[1](x), x)
        assert torch.equal(net(x), net[2](net[0](x)))
        assert gate_activations(net, x)["1"].count_nonzero() == 0
    assert torch.equal(net(x), before) and hooks(net) == 0


def test_what_is_not_there_is_refused():
    net = nn.Sequential(gated(), gated())
    with pytest.raises(ModelError, match="expected 0 to 1"), closed_gates(net, 2):
        pass
    with pytest.raises(ModelError, match="no gated block '7'"), closed_gates(net, "7"):
        pass
    with pytest.raises(ModelError, match="no gates"):
        gate_activations(nn.Linear(4, 4), torch.randn(1, 4))
    assert find_gates(nn.Linear(4, 4)) == {}
