"""What multiplies a branch or a shortcut: fixed, learnt, per channel, or by DeepNorm's table.

    none          the branch as it is
    <number>      a fixed factor beta (beta-scaling, Balduzzi 2017, arXiv 1702.08591, theorem 3)
    beta          the fixed factor 1 / sqrt(blocks), which holds theorem 3's variance
                  beta^2 (blocks - 1) + 1 below 2
    skipinit      a learnt scalar that starts at 0 (De & Smith 2020, arXiv 2002.10444)
    skipinit_root the same, started at the largest value they allow, 1 / sqrt(blocks)
    rezero        a learnt scalar that starts at 0 (Bachlechner 2020, arXiv 2003.04887)
    layer_scale   a learnt factor a channel that starts at 1e-6 (as in ConvNeXt, arXiv 2201.03545)

Fixup (arXiv 1901.09321) has scalars of its own, `Shift` and `ScaleShift`; `init.add_fixup_scalars`
puts them in.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.registry import close_names

__all__ = [
    "SCALES",
    "DeepNormFactors",
    "FixedScale",
    "LayerScale",
    "LearntScale",
    "ScaleShift",
    "ScaledShortcut",
    "Shift",
    "build_scale",
    "deepnorm_factors",
]


class FixedScale(nn.Module):
    """factor * x.

    >>> FixedScale(0.5)(torch.ones(2))
    tensor([0.5000, 0.5000])
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """x times the factor; the dtype stays."""
        return x * self.factor

    def extra_repr(self) -> str:
        """The factor."""
        return f"factor={self.factor:.6g}"


class LearntScale(nn.Module):
    """alpha * x with one learnt scalar (SkipInit, ReZero), which starts at `start`."""

    def __init__(self, start: float = 0.0) -> None:
        super().__init__()
        self.start = start
        self.alpha = nn.Parameter(torch.full((), float(start)))

    def forward(self, x: Tensor) -> Tensor:
        """x times alpha; the dtype stays."""
        return x * self.alpha

    def extra_repr(self) -> str:
        """Where alpha started."""
        return f"start={self.start:.6g}"


class LayerScale(nn.Module):
    """weight * x with one learnt factor a channel, the channels lying along `dim`.

    >>> LayerScale(3, start=0.5, dim=-1)(torch.ones(1, 2, 3)).sum().item()
    3.0
    """

    def __init__(self, channels: int, *, start: float = 1e-6, dim: int = 1) -> None:
        super().__init__()
        self.start = start
        self.dim = dim
        self.weight = nn.Parameter(torch.full((channels,), float(start)))

    def forward(self, x: Tensor) -> Tensor:
        """[..., channels, ...] -> the same shape and dtype."""
        shape = [1] * x.dim()
        shape[self.dim] = -1
        return x * self.weight.view(shape).to(x.dtype)

    def extra_repr(self) -> str:
        """Channels, first value, dimension."""
        return f"{self.weight.numel()}, start={self.start:.6g}, dim={self.dim}"


class ScaledShortcut(nn.Module):
    """factor * shortcut(x): DeepNorm's alpha (arXiv 2203.00555)."""

    def __init__(self, shortcut: nn.Module, factor: float) -> None:
        super().__init__()
        self.shortcut = shortcut
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """The shortcut's output times the factor."""
        return self.shortcut(x) * self.factor

    def extra_repr(self) -> str:
        """The factor."""
        return f"factor={self.factor:.6g}"


class Shift(nn.Module):
    """x + bias with one learnt scalar that starts at 0 (Fixup, rule 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """x plus the bias; the dtype stays."""
        return x + self.bias


class ScaleShift(nn.Module):
    """scale * x + bias with two learnt scalars that start at 1 and 0 (Fixup, rule 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """The affine map of x; the dtype stays."""
        return x * self.scale + self.bias


_BY_NAME: dict[str, Callable[[int, int], nn.Module | None]] = {
    "none": lambda channels, blocks: None,
    "beta": lambda channels, blocks: FixedScale(blocks**-0.5),
    "skipinit": lambda channels, blocks: LearntScale(0.0),
    "skipinit_root": lambda channels, blocks: LearntScale(blocks**-0.5),
    "rezero": lambda channels, blocks: LearntScale(0.0),
    "layer_scale": lambda channels, blocks: LayerScale(channels),
}
SCALES = tuple(_BY_NAME)


def build_scale(choice: str | float, *, channels: int, blocks: int) -> nn.Module | None:
    """The `scale` of a ResidualBlock whose branch gives `channels`, in a net of so many `blocks`.

    `choice` is a name of `SCALES` or a number, the fixed factor; None is returned for "none" and 1.
    ModelError names the nearest name.

    >>> build_scale("beta", channels=64, blocks=4)
    FixedScale(factor=0.5)
    """
    if isinstance(choice, str) and choice in _BY_NAME:
        return _BY_NAME[choice](channels, blocks)
    if isinstance(choice, str | bool) or not isinstance(choice, int | float):
        raise ModelError(
            "unknown branch_scale",
            got=choice,
            expected=f"a number, or one of {', '.join(SCALES)}",
            hint=close_names(str(choice), list(SCALES)),
        )
    return None if choice == 1 else FixedScale(float(choice))


class DeepNormFactors(NamedTuple):
    """alpha multiplies the shortcut before the norm; beta is the gain of the branch's weights.

    beta goes to the feed-forward weights and to the value and output projections; the query and
    key projections keep gain 1.
    """

    alpha: float
    beta: float


def deepnorm_factors(
    part: str, *, encoder_layers: int = 0, decoder_layers: int = 0
) -> DeepNormFactors:
    """alpha and beta of one part, "encoder" or "decoder", of a Transformer (arXiv 2203.00555).

    No decoder layers make it encoder-only (BERT), no encoder layers decoder-only (GPT).

    >>> deepnorm_factors("encoder", encoder_layers=8)
    DeepNormFactors(alpha=2.0, beta=0.3535533905932738)
    """
    own = {"encoder": encoder_layers, "decoder": decoder_layers}
    if part not in own:
        raise ModelError("unknown part", got=part, expected="encoder or decoder")
    if own[part] < 1 or min(own.values()) < 0:
        raise ModelError(f"{part}_layers is wrong", got=own[part], expected="a whole number from 1")
    if 0 in own.values():
        return DeepNormFactors((2 * own[part]) ** 0.25, (8 * own[part]) ** -0.25)
    if part == "decoder":
        return DeepNormFactors((3 * decoder_layers) ** 0.25, (12 * decoder_layers) ** -0.25)
    both = encoder_layers**4 * decoder_layers
    return DeepNormFactors(0.81 * both ** (1 / 16), 0.87 * both ** (-1 / 16))
