"""What carries x past the branch: nothing, x itself, x with zero channels, or a projection.

Policies say which shortcut a block gets; the letters are those of He 2015 sec. 4.1:

    none            plain net
    identity        x, where shapes match; a change of shape is refused
    zero_pad        A: x, sub-sampled and padded with zero channels where shapes change
    projection      B: 1x1 convolution where shapes change, x elsewhere
    projection_all  C: 1x1 convolution everywhere

Of the shortcuts of He 2016, table 1, `GatedShortcut` is here; the 1x1 convolution is option C, a
constant is `scale.ScaledShortcut`, gates on both sides are `merge.GatedMerge`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.registry import close_names

__all__ = [
    "SHORTCUTS",
    "GatedShortcut",
    "Identity",
    "PadShortcut",
    "Projection",
    "Zero",
    "build_gate",
    "build_shortcut",
    "shortcut_policy",
]

SHORTCUTS = ("none", "identity", "zero_pad", "projection", "projection_all")
_LETTERS = {"A": "zero_pad", "B": "projection", "C": "projection_all"}


class Zero(nn.Module):
    """The shortcut of a plain block: zero, whatever x is (a 0-dimensional tensor that broadcasts)."""

    def forward(self, x: Tensor) -> Tensor:
        """A zero of x's dtype and device."""
        return x.new_zeros(())


class Identity(nn.Identity):
    """x itself."""


class PadShortcut(nn.Module):
    """Option A: even rows and columns of x, zero channels for the new ones; no parameters.

    [N, C, H, W] -> [N, out_channels, ceil(H/stride), ceil(W/stride)]. Half of the zero channels
    come before x's and half after, the odd one after.

    >>> import torch
    >>> PadShortcut(1, 3, stride=2)(torch.ones(1, 1, 4, 4)).sum(dim=(2, 3))
    tensor([[0., 4., 0.]])
    """

    def __init__(self, in_channels: int, out_channels: int, *, stride: int = 1) -> None:
        super().__init__()
        if out_channels < in_channels:
            raise ModelError(
                "a zero-padding shortcut cannot drop channels",
                got=out_channels,
                expected=f"{in_channels} or more",
                hint="Use shortcut='projection'.",
            )
        self.stride = stride
        self.before = (out_channels - in_channels) // 2
        self.after = out_channels - in_channels - self.before

    def forward(self, x: Tensor) -> Tensor:
        """Sub-sample and pad."""
        x = x[:, :, :: self.stride, :: self.stride]
        return F.pad(x, (0, 0, 0, 0, self.before, self.after))

    def extra_repr(self) -> str:
        """Stride and the zero channels on either side."""
        return f"stride={self.stride}, before={self.before}, after={self.after}"


class Projection(nn.Module):
    """Options B and C: 1x1 convolution, then batch norm (He 2015 eq. 2).

    `norm=False` leaves the norm out, as in pre-activation nets, where none follows a convolution.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, stride: int = 1, norm: bool = True
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)
        self.norm = nn.BatchNorm2d(out_channels) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """[N, in_channels, H, W] -> [N, out_channels, ceil(H/stride), ceil(W/stride)]."""
        return self.norm(self.conv(x))


class GatedShortcut(nn.Module):
    """(1 - g(x)) * carry(x), with g = sigmoid(gate(x)): shortcut-only gating (He 2016, sec. 3.1).

    `carry` is what an ungated block of these shapes would have, x itself where None is given. A gate
    that gives -6 everywhere leaves 99.75 % of it.
    """

    def __init__(self, gate: nn.Module, carry: nn.Module | None = None) -> None:
        super().__init__()
        self.gate = gate
        self.carry = carry if carry is not None else Identity()

    def openness(self, x: Tensor) -> Tensor:
        """g(x), between 0 (x is carried whole) and 1 (nothing is carried)."""
        return torch.sigmoid(self.gate(x))

    def forward(self, x: Tensor) -> Tensor:
        """What is left of x; 1 - sigmoid(z) is sigmoid(-z), without cancellation."""
        return torch.sigmoid(-self.gate(x)) * self.carry(x)


def build_gate(
    in_channels: int, out_channels: int, *, stride: int = 1, bias: float = -6.0
) -> nn.Conv2d:
    """The gate W_g x + b_g before its sigmoid: a 1x1 convolution, one gate a channel and pixel.

    `bias` is the initial b_g: from 0 to -10 in the search of He 2016, section 3.1; a negative one
    lets the shortcut carry at first.
    """
    gate = nn.Conv2d(in_channels, out_channels, 1, stride=stride)
    assert gate.bias is not None, "a gate has a bias"
    nn.init.constant_(gate.bias, bias)
    return gate


def shortcut_policy(name: str) -> str:
    """The policy of that name or letter; ModelError names the nearest one.

    >>> shortcut_policy("A")
    'zero_pad'
    """
    policy = _LETTERS.get(name, name)
    if policy not in SHORTCUTS:
        raise ModelError(
            f"unknown shortcut {name!r}",
            expected=f"one of {', '.join(SHORTCUTS)}, or A, B, C",
            hint=close_names(name, list(SHORTCUTS)),
        )
    return policy


def build_shortcut(policy: str, in_channels: int, out_channels: int, *, stride: int) -> nn.Module:
    """The shortcut that a policy gives to a block of these shapes."""
    policy = shortcut_policy(policy)
    same_shape = in_channels == out_channels and stride == 1
    if policy == "none":
        return Zero()
    if policy == "projection_all" or (policy == "projection" and not same_shape):
        return Projection(in_channels, out_channels, stride=stride)
    if same_shape:
        return Identity()
    if policy == "zero_pad":
        return PadShortcut(in_channels, out_channels, stride=stride)
    raise ModelError(
        "an identity shortcut needs equal shapes",
        got=f"{in_channels} -> {out_channels} channels, stride {stride}",
        hint="Use zero_pad (A), projection (B) or projection_all (C).",
    )
