"""The table equals the paper's formula, entry by entry."""

import math

import pytest
import torch

from reslab.errors import ModelError
from reslab.nn.positions import SinusoidalPositions, sinusoidal_table


def test_the_table_equals_the_formula():
    table = sinusoidal_table(50, 16)
    for t in range(50):
        for i in range(8):
            angle = t / 10_000 ** (2 * i / 16)
            assert table[t, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[t, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_a_shift_is_a_rotation_of_each_pair():
    """Section 3.5: PE(t + k) is a linear function of PE(t)."""
    table = sinusoidal_table(20, 2)
    turn = torch.tensor([[math.cos(3), -math.sin(3)], [math.sin(3), math.cos(3)]]).double()
    assert torch.allclose(table[3:, [1, 0]], table[:-3, [1, 0]] @ turn.T)


def test_offsets_and_positions_beyond_the_table_continue_it():
    positions = SinusoidalPositions(8, 6)
    whole = sinusoidal_table(20, 6).float()
    assert torch.equal(positions(8), whole[:8])
    assert torch.equal(positions(2, 5), whole[5:7])
    assert torch.equal(positions(12, 8), whole[8:])


def test_the_table_is_no_weight():
    positions = SinusoidalPositions(8, 6)
    assert not positions.state_dict() and not list(positions.parameters())
    assert repr(positions) == "SinusoidalPositions(max_length=8, width=6)"


@pytest.mark.parametrize("width", [0, 1, 7])
def test_odd_widths_are_refused(width):
    with pytest.raises(ModelError, match="come in pairs"):
        sinusoidal_table(4, width)
