"""Reversible residual nets for CIFAR: training memory that does not grow with a stage's blocks.

RevNet (Gomez 2017, arXiv 1707.04585): three stages of n coupled blocks, 12n + 2 layers,

    y1 = x1 + F(x2),  y2 = x2 + G(y1)      F, G: norm - ReLU - conv 3x3 - norm - ReLU - conv 3x3

on each half of the channels. The first block of stages 2 and 3 halves the picture, has zero-padding
shortcuts (option A) and stores its activations as usual; all others are recomputed from their
outputs. Widths of RevNet-38 and -110 are those of the authors' code: stem 32, stages 32, 64, 112 and
32, 64, 128. The tests check that the inverse gives x back, that gradients are those of the plain
computation, and that no more bytes are saved for four times the blocks.

    reslab train revnet38 --data cifar10 --recipe paper
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from reslab.errors import ModelError
from reslab.models.convnet import ConvNet, Stage
from reslab.nn import PadShortcut, init_he
from reslab.nn.reversible import CoupledBlock, ReversibleSequence

__all__ = ["RevNetSpec", "build_revnet"]

FAMILY = {
    "build": "build_revnet",
    "input_shape": (3, 32, 32),
    "source": "Gomez 2017, authors' code",
    "numbered": {"revnet": {}},
    "smallest": {"depth": 26, "widths": (8, 16, 16), "stem_width": 8},
    "smallest_shape": (3, 8, 8),
    "nets": {
        "revnet38": {
            "options": {"depth": 38, "widths": (32, 64, 112)},
            "depth": 38,
            "parameters": 464_858,
            "macs": 77_231_200,
        },
        "revnet110": {
            "options": {"depth": 110, "widths": (32, 64, 128)},
            "depth": 110,
            "parameters": 1_729_162,
            "macs": 253_330_688,
        },
    },
}


@dataclass(frozen=True, kw_only=True)
class RevNetSpec:
    """The numbers of a net: layers, channels of both halves together per stage, and options."""

    depth: int
    widths: tuple[int, ...]
    stem_width: int
    num_classes: int
    in_channels: int
    reversible: bool

    def __post_init__(self) -> None:
        rest = (self.depth - 2) % 12
        if rest or self.depth < 14:
            below = max(self.depth - rest, 14)
            nearest = f"{below} or {below + 12}" if self.depth > below else str(below)
            raise ModelError(
                f"no RevNet has {self.depth} layers",
                expected="12n + 2",
                hint=f"Nearest: {nearest}.",
            )
        if len(self.widths) != 3 or any(w < 2 or w % 2 for w in (self.stem_width, *self.widths)):
            raise ModelError(
                "widths are wrong",
                got=(self.stem_width, *self.widths),
                expected="an even number for the stem and for each of three stages",
            )
        if list(self.widths) != sorted(self.widths) or self.stem_width > self.widths[0]:
            raise ModelError("widths must not fall", got=(self.stem_width, *self.widths))
        for name in ("num_classes", "in_channels"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
        if not isinstance(self.reversible, bool):
            raise ModelError("reversible is wrong", got=self.reversible, expected="a boolean")

    @property
    def depths(self) -> tuple[int, ...]:
        """Coupled blocks per stage."""
        return ((self.depth - 2) // 12,) * 3


def build_revnet(
    *,
    depth: int,
    widths: tuple[int, ...] = (32, 64, 128),
    stem_width: int = 32,
    num_classes: int = 10,
    in_channels: int = 3,
    reversible: bool = True,
) -> ConvNet:
    """A net of 12n + 2 layers; `reversible=False` stores activations and computes the same.

    Half precision (autocast) keeps the two halves in float32, for the inverse's sake. Lists serve as
    `widths` too. ModelError names the nearest legal depth.
    """
    spec = RevNetSpec(
        depth=depth,
        widths=tuple(widths),
        stem_width=stem_width,
        num_classes=num_classes,
        in_channels=in_channels,
        reversible=reversible,
    )
    stem = nn.Conv2d(in_channels, stem_width, 3, padding=1, bias=False)
    net = ConvNet(
        nn.Sequential(OrderedDict(conv=stem)),
        list(_build_stages(spec)),
        _build_head(spec),
        spec=spec,
        depth=depth,
    )
    init_he(net)
    return net


def _build_stages(spec: RevNetSpec) -> Iterator[Stage]:
    in_channels = spec.stem_width
    for index, (depth, width) in enumerate(zip(spec.depths, spec.widths, strict=True)):
        parts: list[nn.Module] = []
        stride = 2 if index else 1
        if stride > 1 or in_channels != width:
            parts.append(_build_block(in_channels, width, stride=stride))
        blocks = [_build_block(width, width) for _ in range(depth - len(parts))]
        if blocks:
            parts.append(ReversibleSequence(*blocks, saves_memory=spec.reversible))
        in_channels = width
        yield Stage(blocks=parts, channels=width, reduction=2**index)


def _build_block(in_channels: int, width: int, *, stride: int = 1) -> CoupledBlock:
    """One coupled block; `in_channels` and `width` are those of both halves together."""
    before, half = in_channels // 2, width // 2
    same = stride == 1 and before == half
    return CoupledBlock(
        _residual_function(before, half, stride=stride),
        _residual_function(half, half),
        shortcut=None if same else PadShortcut(before, half, stride=stride),
    )


def _residual_function(in_channels: int, width: int, *, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            norm1=nn.BatchNorm2d(in_channels),
            act1=nn.ReLU(),
            conv1=nn.Conv2d(in_channels, width, 3, stride=stride, padding=1, bias=False),
            norm2=nn.BatchNorm2d(width),
            act2=nn.ReLU(),
            conv2=nn.Conv2d(width, width, 3, padding=1, bias=False),
        )
    )


def _build_head(spec: RevNetSpec) -> nn.Sequential:
    width = spec.widths[-1]
    return nn.Sequential(
        OrderedDict[str, Any](
            norm=nn.BatchNorm2d(width),
            act=nn.ReLU(),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            classifier=nn.Linear(width, spec.num_classes),
        )
    )
