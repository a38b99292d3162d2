"""Recurrent cells as residual blocks through time: state_t = carry * state_{t-1} + update.

    rnn      h' = tanh(a)                                    nothing is carried: a plain block
    gru      h' = z h + (1 - z) n                            gated merge, open by 1 - z
    lstm     c' = f c + i g,  h' = o tanh(c')                addition, the shortcut scaled by f
    highway  s' = (1 - t) s + t h, several times a step      gated merge (arXiv 1607.03474)

A cell holds two affine maps, `input` of what comes in and `recurrent` of the state, and a
`ResidualBlock` (`block`, or `blocks`) without weights of its own. The block reads the state and
these pre-activations beside each other in equal parts, so whatever looks at blocks (hooks, gates,
lesions) sees each step of time. Rows of the maps are in torch's order: r, z, n and i, f, g, o.
"""

from typing import Protocol

import torch
from torch import Tensor, nn

from reslab.nn.block import ResidualBlock
from reslab.nn.merge import GatedMerge
from reslab.nn.shortcut import Zero

__all__ = [
    "Cell",
    "GRUCell",
    "GatedShortcut",
    "HighwayCell",
    "LSTMCell",
    "Part",
    "TanhCell",
    "carry_gate",
    "run_cell",
]


class Part(nn.Module):
    """One of `count` equal parts of the last dimension, times `factor`.

    >>> Part(1, 3)(torch.arange(6.0))
    tensor([2., 3.])
    """

    def __init__(self, index: int, count: int, *, factor: float = 1.0) -> None:
        super().__init__()
        self.index, self.count, self.factor = index, count, factor

    def forward(self, x: Tensor) -> Tensor:
        """[..., count * width] -> [..., width]."""
        part = x.chunk(self.count, -1)[self.index]
        return part if self.factor == 1.0 else part * self.factor

    def extra_repr(self) -> str:
        """Which part of how many."""
        return f"{self.index} of {self.count}, factor={self.factor:g}"


class GatedShortcut(nn.Module):
    """sigmoid(gate(x)) * carried(x): a shortcut that forgets."""

    def __init__(self, carried: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.carried = carried
        self.gate = gate

    def openness(self, x: Tensor) -> Tensor:
        """The factor of what is carried, between 0 (forget) and 1 (keep)."""
        return torch.sigmoid(self.gate(x))

    def forward(self, x: Tensor) -> Tensor:
        """What is kept."""
        return self.openness(x) * self.carried(x)


class Cell(Protocol):
    """What `run_cell` needs: the map of all inputs at once, and a step of the state.

    `states` is how many tensors of [N, width] the state has; the first is the output.
    """

    input: nn.Linear
    width: int
    states: int

    def step(self, driven: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The next state from input(x_t) and the state before."""
        ...


class TanhCell(nn.Module):
    """h' = tanh(W x + U h + b), the plain net through time; `carry_bias` has nothing to act on."""

    states = 1

    def __init__(self, in_features: int, width: int, *, carry_bias: float = 0.0) -> None:
        super().__init__()
        self.width = width
        self.input = nn.Linear(in_features, width)
        self.recurrent = nn.Linear(width, width)
        self.block = ResidualBlock(nn.Tanh(), Zero())
        _init_uniform(self, width)

    def step(self, driven: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """(h,) -> (h',); driven is [N, width]."""
        return (self.block(driven + self.recurrent(state[0])),)


class GRUCell(nn.Module):
    """Cho et al. 2014 (arXiv 1406.1078) in the form of torch.nn.GRU: r scales U h, not h.

    `carry_bias` is the bias of z at first: larger means that more of the state is carried.
    """

    states = 1

    def __init__(self, in_features: int, width: int, *, carry_bias: float = 0.0) -> None:
        super().__init__()
        self.width = width
        self.input = nn.Linear(in_features, 3 * width)
        self.recurrent = nn.Linear(width, 3 * width)
        # The block reads h | r | z | input part of n | recurrent part of n; open means 1 - z.
        gate = Part(2, 5, factor=-1.0)
        self.block = ResidualBlock(_Candidate(), Part(0, 5), merge=GatedMerge(gate))
        _init_uniform(self, width)
        _set_gate(self.input.bias, self.recurrent.bias, slice(width, 2 * width), carry_bias)

    def step(self, driven: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """(h,) -> (h',); driven is [N, 3 * width]."""
        (h,) = state
        r, z, n = driven.chunk(3, -1)
        own_r, own_z, own_n = self.recurrent(h).chunk(3, -1)
        return (self.block(torch.cat((h, r + own_r, z + own_z, n, own_n), -1)),)


class _Candidate(nn.Module):
    """n = tanh(input part + r * recurrent part)."""

    def forward(self, x: Tensor) -> Tensor:
        _, r, _, n, own_n = x.chunk(5, -1)
        return torch.tanh(n + torch.sigmoid(r) * own_n)


class LSTMCell(nn.Module):
    """Hochreiter and Schmidhuber 1997 with forget gates, as in torch.nn.LSTM; the block gives c.

    `carry_bias` is the bias of the forget gate at first.
    """

    states = 2

    def __init__(self, in_features: int, width: int, *, carry_bias: float = 0.0) -> None:
        super().__init__()
        self.width = width
        self.input = nn.Linear(in_features, 4 * width)
        self.recurrent = nn.Linear(width, 4 * width)
        # The block reads c | i | f | g | o.
        self.block = ResidualBlock(_Write(), GatedShortcut(Part(0, 5), Part(2, 5)))
        _init_uniform(self, width)
        _set_gate(self.input.bias, self.recurrent.bias, slice(width, 2 * width), carry_bias)

    def step(self, driven: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """(h, c) -> (h', c'); driven is [N, 4 * width]."""
        h, c = state
        gates = driven + self.recurrent(h)
        memory = self.block(torch.cat((c, gates), -1))
        return torch.sigmoid(gates.chunk(4, -1)[3]) * torch.tanh(memory), memory


class _Write(nn.Module):
    """i * g, what is written into the memory."""

    def forward(self, x: Tensor) -> Tensor:
        _, i, _, g, _ = x.chunk(5, -1)
        return torch.sigmoid(i) * torch.tanh(g)


class HighwayCell(nn.Module):
    """Recurrent highway layer (Zilly et al., arXiv 1607.03474), coupled gates.

    A step of time passes `recurrence_depth` highway layers; only the first sees the input.
    `carry_bias` is minus the bias of the transform gates at first.
    """

    states = 1

    def __init__(
        self, in_features: int, width: int, *, recurrence_depth: int = 1, carry_bias: float = 0.0
    ) -> None:
        super().__init__()
        self.width = width
        self.input = nn.Linear(in_features, 2 * width, bias=False)
        self.recurrent = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(recurrence_depth))
        # Each block reads s | h | t.
        self.blocks = nn.ModuleList(
            ResidualBlock(
                nn.Sequential(Part(1, 3), nn.Tanh()), Part(0, 3), merge=GatedMerge(Part(2, 3))
            )
            for _ in range(recurrence_depth)
        )
        _init_uniform(self, width)
        for layer in self.recurrent:
            assert isinstance(layer, nn.Linear)
            nn.init.constant_(layer.bias[width:], -carry_bias)

    def step(self, driven: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """(s,) -> (s',); driven is [N, 2 * width]."""
        (s,) = state
        for number, (layer, block) in enumerate(zip(self.recurrent, self.blocks, strict=True)):
            own = layer(s)
            s = block(torch.cat((s, own if number else driven + own), -1))
        return (s,)


def run_cell(cell: Cell, x: Tensor) -> Tensor:
    """All outputs of a cell that starts from a state of zeros: [N, T, features] -> [N, T, width].

    A Python loop over the steps, which torch.export and torch.compile unroll.

    >>> run_cell(GRUCell(3, 5), torch.zeros(2, 7, 3)).shape
    torch.Size([2, 7, 5])
    """
    driven = cell.input(x)
    state = (driven.new_zeros(len(driven), cell.width),) * cell.states
    outputs = []
    for now in driven.unbind(1):
        state = cell.step(now, state)
        outputs.append(state[0])
    return torch.stack(outputs, 1)


def carry_gate(block: ResidualBlock, x: Tensor) -> Tensor:
    """The factor by which a block of a cell multiplies the state that it carries, for its input x.

    1 - g of a gated merge, the forget gate of a gated shortcut, zeros where nothing is carried.
    """
    if isinstance(block.merge, GatedMerge):
        return 1 - block.merge.openness(x)
    if isinstance(block.shortcut, GatedShortcut):
        return block.shortcut.openness(x)
    return torch.zeros_like(x)


def _init_uniform(cell: nn.Module, width: int) -> None:
    """All weights and biases from U(-1, 1) / sqrt(width), as torch's recurrent layers start."""
    for parameter in cell.parameters():
        nn.init.uniform_(parameter, -(width**-0.5), width**-0.5)


def _set_gate(own: Tensor, other: Tensor, rows: slice, value: float) -> None:
    """These rows of two biases that are added: `value` together."""
    nn.init.constant_(own[rows], value)
    nn.init.zeros_(other[rows])
