"""Recurrent cells: torch's own, step for step; the state is carried by a residual block."""

import pytest
import torch
from torch import nn

from reslab.nn import ResidualBlock
from reslab.nn.cell import (
    GatedShortcut,
    GRUCell,
    HighwayCell,
    LSTMCell,
    Part,
    TanhCell,
    carry_gate,
    run_cell,
)

TORCH = [(TanhCell, nn.RNN), (GRUCell, nn.GRU), (LSTMCell, nn.LSTM)]


def twins(ours, theirs, *, features=3, width=5):
    torch.manual_seed(0)
    cell, layer = ours(features, width).double(), theirs(features, width, batch_first=True).double()
    pairs = {"input.weight": "weight_ih_l0", "recurrent.weight": "weight_hh_l0"}
    pairs |= {"input.bias": "bias_ih_l0", "recurrent.bias": "bias_hh_l0"}
    with torch.no_grad():
        for mine, its in pairs.items():
            cell.get_parameter(mine).copy_(layer.get_parameter(its).normal_())
    return cell, layer, pairs


@pytest.mark.parametrize(("ours", "theirs"), TORCH)
def test_outputs_and_gradients_equal_torchs(ours, theirs):
    cell, layer, pairs = twins(ours, theirs)
    x = torch.randn(4, 9, 3, dtype=torch.double, requires_grad=True)
    twin = x.detach().clone().requires_grad_()
    mine, its = run_cell(cell, x), layer(twin)[0]
    assert torch.allclose(mine, its, atol=1e-12)
    weights = torch.randn_like(mine)
    (mine * weights).sum().backward()
    (its * weights).sum().backward()
    assert torch.allclose(x.grad, twin.grad, atol=1e-10)
    for name, other in pairs.items():
        assert torch.allclose(
            cell.get_parameter(name).grad, layer.get_parameter(other).grad, atol=1e-10
        )


@pytest.mark.parametrize(("ours", "theirs"), TORCH)
def test_a_cell_has_torchs_parameters_and_no_more(ours, theirs):
    cell, layer, _ = twins(ours, theirs)
    count = [sum(p.numel() for p in m.parameters()) for m in (cell, layer)]
    assert count[0] == count[1]


def test_a_highway_step_is_the_papers_recursion():
    """s_l = h_l t_l + s_{l-1} (1 - t_l); only the first layer sees the input."""
    torch.manual_seed(0)
    cell = HighwayCell(3, 4, recurrence_depth=3)
    x, s = torch.randn(2, 3), torch.randn(2, 4)
    expected = s
    for number, layer in enumerate(cell.recurrent):
        h, t = layer(expected).chunk(2, 1)
        if number == 0:
            driven_h, driven_t = (x @ cell.input.weight.T).chunk(2, 1)
            h, t = h + driven_h, t + driven_t
        t = t.sigmoid()
        expected = h.tanh() * t + expected * (1 - t)
    assert torch.allclose(cell.step(cell.input(x), (s,))[0], expected, atol=1e-6)


@pytest.mark.parametrize(("kind", "weights"), [(GRUCell, 5), (LSTMCell, 5), (HighwayCell, 3)])
def test_a_step_is_carry_times_state_plus_update(kind, weights):
    torch.manual_seed(0)
    block = next(m for m in kind(3, 4).modules() if isinstance(m, ResidualBlock))
    x = torch.randn(2, weights * 4)
    state, carry, branch = x[:, :4], carry_gate(block, x), block.branch(x)
    coupled = 1.0 if kind is LSTMCell else 1 - carry
    assert torch.allclose(block(x), carry * state + coupled * branch, atol=1e-6)


def test_a_tanh_cell_carries_nothing():
    block = TanhCell(3, 4).block
    assert carry_gate(block, torch.randn(2, 4)).count_nonzero() == 0


@pytest.mark.parametrize("kind", [GRUCell, LSTMCell, HighwayCell])
def test_the_carry_bias_is_the_carry_gates_logit_at_rest(kind):
    cell = kind(3, 4, carry_bias=1.5).double()
    with torch.no_grad():
        for name, parameter in cell.named_parameters():
            if name.endswith("weight"):
                parameter.zero_()
    seen = []
    for block in (m for m in cell.modules() if isinstance(m, ResidualBlock)):
        block.register_forward_hook(lambda m, x, y: seen.append(carry_gate(m, x[0])))
    run_cell(cell, torch.randn(2, 3, 3, dtype=torch.double))
    expected = torch.full((2, 4), 1.5, dtype=torch.double).sigmoid()
    assert len(seen) == 3 and all(torch.allclose(gate, expected) for gate in seen)


def test_a_gated_shortcut_multiplies_what_it_carries():
    shortcut = GatedShortcut(Part(0, 2), Part(1, 2))
    assert shortcut(torch.tensor([[3.0, 0.0]])).tolist() == [[1.5]]
    assert shortcut.openness(torch.tensor([[3.0, 0.0]])).tolist() == [[0.5]]


def test_a_part_can_be_scaled():
    assert Part(0, 2, factor=-1.0)(torch.tensor([1.0, 2.0])).tolist() == [-1.0]
