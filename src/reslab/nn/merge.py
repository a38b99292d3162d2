"""How the two sides of a block come together: sum, concatenation, or a gate that looks at x.

Each merge is called as merge(shortcut, branch, x), x being what the block's two sides read.
"""

import torch
from torch import Tensor, nn

__all__ = ["Add", "Concat", "GatedMerge"]


class Add(nn.Module):
    """shortcut + branch (He 2015, eq. 1)."""

    def forward(self, shortcut: Tensor, branch: Tensor, x: Tensor) -> Tensor:
        """The sum; shapes broadcast."""
        return shortcut + branch


class Concat(nn.Module):
    """Both sides beside each other: channels of x first (DenseNet, arXiv 1608.06993, eq. 2).

    >>> Concat()(torch.zeros(1, 2), torch.ones(1, 1), torch.zeros(1, 2))
    tensor([[0., 0., 1.]])
    """

    def __init__(self, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, shortcut: Tensor, branch: Tensor, x: Tensor) -> Tensor:
        """[..., a, ...] and [..., b, ...] -> [..., a + b, ...]."""
        return torch.cat((shortcut, branch), self.dim)

    def extra_repr(self) -> str:
        """The dimension along which both sides lie."""
        return f"dim={self.dim}"


class GatedMerge(nn.Module):
    """g(x) * branch + (1 - g(x)) * shortcut, with g = sigmoid(gate(x)).

    Coupled gates of Highway nets (arXiv 1505.00387, eq. 3), where g is the transform gate and
    1 - g the carry gate; the exclusive gating of He 2016, section 3.1, is the same formula. Where
    g is 0 the result is the shortcut exactly, where it is 1 the branch (both must be finite).

    `sigmoid` is a module of its own so that a hook can see or replace g (`reslab.nn.gates`).
    """

    def __init__(self, gate: nn.Module) -> None:
        super().__init__()
        self.gate = gate
        self.sigmoid = nn.Sigmoid()

    def openness(self, x: Tensor) -> Tensor:
        """g(x), between 0 (carry x) and 1 (transform)."""
        return self.sigmoid(self.gate(x))

    def forward(self, shortcut: Tensor, branch: Tensor, x: Tensor) -> Tensor:
        """The gated mean of both sides."""
        # Not torch.lerp: under autocast the sides may differ in dtype, which it refuses.
        openness = self.openness(x)
        return openness * branch + (1 - openness) * shortcut
