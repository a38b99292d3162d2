"""Squeeze-and-excitation by hand, beside torchvision's, and out of range."""

import pytest
import torch
from torchvision.ops import SqueezeExcitation

from reslab.errors import ModelError
from reslab.nn.squeeze import ChannelMap, SqueezeExcite


def test_the_gate_of_two_channels_is_the_one_computed_by_hand():
    gate = SqueezeExcite(2, reduction=2)
    with torch.no_grad():
        gate.reduce.weight.copy_(torch.tensor([1.0, -1.0]).view(1, 2, 1, 1))
        gate.reduce.bias.fill_(0.5)
        gate.expand.weight.copy_(torch.tensor([2.0, -1.0]).view(2, 1, 1, 1))
        gate.expand.bias.copy_(torch.tensor([0.0, 1.0]))
    # Means 3 and 1: relu(3 - 1 + 0.5) = 2.5, so that sigmoid(5) and sigmoid(-1.5) are the gates.
    x = torch.tensor([[[[2.0, 4.0]], [[0.0, 2.0]]]])
    opened = torch.sigmoid(torch.tensor([5.0, -1.5])).view(1, 2, 1, 1)
    assert torch.allclose(gate.gate(x), opened)
    assert torch.allclose(gate(x), x * opened)


def test_it_equals_torchvisions():
    torch.manual_seed(0)
    ours, theirs = SqueezeExcite(32, reduction=4), SqueezeExcitation(32, 8)
    theirs.fc1.load_state_dict(ours.reduce.state_dict())
    theirs.fc2.load_state_dict(ours.expand.state_dict())
    x = torch.randn(3, 32, 5, 7)
    assert torch.allclose(ours(x), theirs(x), atol=1e-6)


def test_each_sample_has_gates_of_its_own():
    gate = SqueezeExcite(8, reduction=2)
    x = torch.randn(4, 8, 3, 3)
    alone = torch.cat([gate(sample[None]) for sample in x])
    assert torch.allclose(gate(x), alone, atol=1e-6)


def test_at_least_one_channel_is_left():
    assert SqueezeExcite(8, reduction=16).reduce.weight.shape == (1, 8, 1, 1)


def test_a_channel_map_is_a_1x1_convolution():
    torch.manual_seed(0)
    ours = ChannelMap(6, 4)
    theirs = torch.nn.Conv2d(6, 4, 1)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 6, 3, 3)
    assert torch.equal(ours(x), theirs(x))
    assert ours.weight.abs().max() <= 6**-0.5


@pytest.mark.parametrize("reduction", [0, 1.5, True, "16"])
def test_a_wrong_reduction_is_refused(reduction):
    with pytest.raises(ModelError, match="reduction is wrong"):
        SqueezeExcite(8, reduction=reduction)
