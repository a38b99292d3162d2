"""Carry and gradient through time, against closed forms."""

import math

import pytest
import torch
from torch import nn

from reslab.errors import ModelError
from reslab.models.catalog import create_model
from reslab.models.recurrence_view import recurrence_view
from reslab.nn import ResidualBlock

STEPS, WIDTH = 12, 6


def small(cell, **options):
    torch.manual_seed(0)
    settings = {"cell": cell, "vocab_size": 20, "width": WIDTH}
    return create_model("recurrent", **(settings | options)).double()


def some_ids(length=STEPS):
    return torch.randint(0, 20, (3, length), generator=torch.Generator().manual_seed(1))


def without_weights(net):
    with torch.no_grad():
        for name, parameter in net.layers.named_parameters():
            if name.endswith("weight"):
                parameter.zero_()
    return net


@pytest.mark.parametrize("gate", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(
    ("cell", "depth"), [("gru", 1), ("lstm", 1), ("highway", 1), ("highway", 3)]
)
def test_with_the_carry_gate_at_g_the_gradient_decays_as_g_to_the_distance(cell, depth, gate):
    bias = math.log(gate / (1 - gate))
    net = without_weights(small(cell, carry_bias=bias, recurrence_depth=depth))
    view = recurrence_view(net, some_ids())
    carried = gate**depth
    assert view.carry.shape == (STEPS, 3, WIDTH)
    assert torch.allclose(view.carry, torch.full_like(view.carry, carried), rtol=1e-6)
    distance = torch.arange(STEPS - 1, -1, -1, dtype=torch.double)
    expected = (WIDTH**0.5 * carried**distance)[:, None].expand(-1, 3)
    assert torch.allclose(view.gradient, expected, rtol=1e-5)


def linear_rnn(recurrent):
    """A tanh net that stays at zero, where tanh has slope 1."""
    net = without_weights(small("rnn"))
    with torch.no_grad():
        for bias in (net.layers[0].input.bias, net.layers[0].recurrent.bias):
            bias.zero_()
        net.layers[0].recurrent.weight.copy_(recurrent)
    return net


@pytest.mark.parametrize("radius", [0.5, 0.9, 1.0, 1.3])
def test_a_tanh_nets_gradient_goes_with_the_spectral_radius(radius):
    rotation = nn.init.orthogonal_(torch.empty(WIDTH, WIDTH, dtype=torch.double))
    view = recurrence_view(linear_rnn(radius * rotation), some_ids())
    assert torch.allclose(view.gradient[:-1] / view.gradient[1:], torch.tensor(radius).double())
    assert view.carry.count_nonzero() == 0


def test_for_any_matrix_the_rate_tends_to_the_spectral_radius():
    generator = torch.Generator().manual_seed(3)
    matrix = torch.rand(
        WIDTH, WIDTH, generator=generator, dtype=torch.double
    )  # positive: one leads
    radius = torch.linalg.eigvals(matrix).abs().max()
    gradient = recurrence_view(linear_rnn(matrix), some_ids(40)).gradient
    assert torch.allclose(gradient[0] / gradient[1], radius, rtol=1e-8)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "highway"])
@pytest.mark.parametrize("of", ["last", "loss"])
def test_the_gradient_equals_a_finite_difference_of_the_state(cell, of):
    """The slow twin: push the state of one step and see the scalar move."""
    net, ids, step, eps = small(cell, layers=2), some_ids(5), 2, 1e-6
    layer = 0 if of == "loss" else 1
    view = recurrence_view(net, ids, of=of, layer=layer)
    block = [m for m in net.layers[layer].modules() if isinstance(m, ResidualBlock)][-1]
    slopes = []
    for unit in range(WIDTH):
        push = torch.zeros(WIDTH, dtype=torch.double)
        push[unit] = eps
        above, below = (scalars(net, ids, block, step, sign * push, of) for sign in (1, -1))
        slopes.append((above - below) / (2 * eps))
    assert torch.allclose(view.gradient[step], torch.stack(slopes).norm(dim=0), rtol=1e-5)


def scalars(net, ids, block, step, push, of):
    """The view's scalar of each sequence, the block's output of one step moved by `push`."""
    states = []

    def hook(module, inputs, output):
        states.append(output + push if len(states) == step else output)
        return states[-1]

    handle = block.register_forward_hook(hook)
    with torch.no_grad():
        logits = net(ids)
    handle.remove()
    if of == "last":
        return states[-1].sum(1)
    losses = nn.functional.cross_entropy(
        logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none"
    )
    return losses.mean(1)


@pytest.mark.parametrize("cell", ["rnn", "gru", "highway"])
def test_the_states_of_the_last_layer_are_what_the_classifier_reads(cell):
    net, ids = small(cell), some_ids()
    view = recurrence_view(net, ids)
    assert torch.allclose(net.head(view.states.transpose(0, 1)), net(ids))


@pytest.mark.parametrize("frozen", [False, True])
def test_the_net_stays_as_it_is(frozen):
    net = small("gru").requires_grad_(not frozen).train()
    with torch.no_grad():
        view = recurrence_view(net, some_ids())
    assert net.training and all(p.grad is None for p in net.parameters())
    assert all(p.requires_grad != frozen for p in net.parameters())
    assert not any(m._forward_hooks for m in net.modules())
    assert view.gradient.shape == (STEPS, 3) and not view.states.requires_grad


def test_the_state_after_the_last_token_has_no_part_in_the_loss():
    gradient = recurrence_view(small("gru"), some_ids(), of="loss").gradient
    assert gradient[-1].count_nonzero() == 0 and (gradient[:-1] > 0).all()


def test_what_is_not_there_is_refused():
    with pytest.raises(ModelError, match="last or loss"):
        recurrence_view(small("gru"), some_ids(), of="lost")
    with pytest.raises(ModelError, match="no such layer"):
        recurrence_view(small("gru"), some_ids(), layer=1)
    with pytest.raises(ModelError, match="no loss"):
        recurrence_view(small("gru", outputs="last"), some_ids(), of="loss")
