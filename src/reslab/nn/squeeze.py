"""Squeeze-and-excitation: a gate on each channel, computed from the whole map (arXiv 1709.01507)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reslab.errors import ModelError

__all__ = ["ChannelMap", "SqueezeExcite"]


class ChannelMap(nn.Module):
    """An affine map of channels, [N, in, 1, 1] -> [N, out, 1, 1]: the layer of a gate.

    A 1x1 convolution in all but its class: the papers' depth leaves gates out, and reslab counts
    every nn.Conv2d and nn.Linear. Weight [out, in, 1, 1] and bias [out] start as torch's own do.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, 1, 1))
        self.bias = nn.Parameter(torch.empty(out_channels))
        bound = 1 / math.sqrt(in_channels)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """The affine map at each pixel."""
        return F.conv2d(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Channels in and out."""
        out_channels, in_channels = self.weight.shape[:2]
        return f"{in_channels}, {out_channels}"


class SqueezeExcite(nn.Module):
    """x * sigmoid(expand(relu(reduce(mean of x over H, W)))) (Hu 2018, eq. 2 to 4).

    [N, C, H, W] -> the same; C // reduction channels, at least one, lie between both layers. The
    paper takes reduction 16 (its r) and puts the gate at the end of a residual branch (fig. 3).

    >>> SqueezeExcite(32, reduction=16)
    SqueezeExcite(
      (reduce): ChannelMap(32, 2)
      (expand): ChannelMap(2, 32)
    )
    """

    def __init__(self, channels: int, *, reduction: int = 16) -> None:
        super().__init__()
        if not isinstance(reduction, int) or isinstance(reduction, bool) or reduction < 1:
            raise ModelError("reduction is wrong", got=reduction, expected="a whole number from 1")
        squeezed = max(1, channels // reduction)
        self.reduce = ChannelMap(channels, squeezed)
        self.expand = ChannelMap(squeezed, channels)

    def gate(self, x: Tensor) -> Tensor:
        """How far each channel of each sample is let through: [N, C, 1, 1], between 0 and 1."""
        squeezed = x.mean((2, 3), keepdim=True)
        return torch.sigmoid(self.expand(F.relu(self.reduce(squeezed))))

    def forward(self, x: Tensor) -> Tensor:
        """x, channel by channel times its gate."""
        return x * self.gate(x)
