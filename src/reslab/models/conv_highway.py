"""Convolutional highway nets (Srivastava 2015, arXiv 1507.06228, tables 1 and 2).

    stage i    [2x2 max pooling,] [plain 3x3 convolution where the width changes,] highway layers
    head       average pooling to head_size x head_size pixels, softmax layer (counted in the depth)

A highway layer has two 3x3 convolutions of equal width: y = T(x) H(x) + (1 - T(x)) x.

Depths are the paper's, as are the parameters that the catalogue prints beside ours. How the layers
are laid out is chosen here: three stages, highway layers spread evenly (earlier stages get the rest),
and for table 2 such widths that the parameters come within 2 % of the printed ones (a test checks
that). For table 1, widths 16 and 32 with a head of 3x3 pixels give 38,730 and 151,178 parameters,
which is what it prints (39K and 151K).

    python -c "import reslab; print(reslab.create_model('highway_cifar19'))"
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from reslab.errors import ModelError
from reslab.models.convnet import ConvNet, Stage
from reslab.models.highway import check_choices, check_counts, gated_block

__all__ = ["ConvHighwaySpec", "build_conv_highway"]

FAMILY = {
    "build": "build_conv_highway",
    "spec": "ConvHighwaySpec",
    "input_shape": (3, 32, 32),
    "source": "Srivastava 2015, table 2; widths chosen here",
    "smallest": {"depth": 6, "widths": (16, 24), "head_size": 2},
    "smallest_shape": (3, 16, 16),
    "nets": {
        "highway_mnist10_w16": {
            "options": {"depth": 10, "widths": (16, 16, 16), "head_size": 3, "in_channels": 1},
            "input_shape": (1, 28, 28),
            "depth": 10,
            "parameters": 38_730,
            "macs": 14_113_440,
            "paper_parameters": "39K",
            "source": "Srivastava 2015, table 1",
        },
        "highway_mnist10_w32": {
            "options": {"depth": 10, "widths": (32, 32, 32), "head_size": 3, "in_channels": 1},
            "input_shape": (1, 28, 28),
            "depth": 10,
            "parameters": 151_178,
            "macs": 56_225_088,
            "paper_parameters": "151K",
            "source": "Srivastava 2015, table 1",
        },
        "highway_cifar11": {
            "options": {"depth": 11, "widths": (24, 40, 56)},
            "depth": 11,
            "parameters": 232_266,
            "macs": 57_987_632,
            "paper_parameters": "236K",
        },
        "highway_cifar19": {
            "options": {"depth": 19, "widths": (32, 80, 128)},
            "depth": 19,
            "parameters": 2_262_714,
            "macs": 348_882_176,
            "paper_parameters": "2.3M",
            "paper_error": "7.54",
        },
        "highway_cifar32": {
            "options": {"depth": 32, "widths": (32, 48, 64)},
            "depth": 32,
            "parameters": 1_266_906,
            "macs": 332_956_288,
            "paper_parameters": "1.25M",
            "paper_error": "8.80",
        },
    },
}


@dataclass(frozen=True, kw_only=True)
class ConvHighwaySpec:
    """The numbers of a convolutional net: a stage for each of `widths`, the image halved between.

    `depth` counts the plain convolutions (the first one and those where the width changes), the
    highway layers and the classifier. `gate_bias` has no effect with shortcut="none".
    """

    depth: int
    widths: tuple[int, ...] = (32, 80, 128)
    head_size: int = 1
    in_channels: int = 3
    num_classes: int = 10
    shortcut: str = "identity"
    activation: str = "relu"
    gate_bias: float = -2.0
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(self.widths))
        check_choices(self)
        check_counts(self, ("depth", "head_size", "in_channels", "num_classes"))
        if not self.widths or not all(isinstance(w, int) and w >= 1 for w in self.widths):
            raise ModelError(
                "widths are wrong", got=self.widths, expected="whole numbers from 1, one a stage"
            )
        fewest = self.num_plain + len(self.widths) + 1
        if self.depth < fewest:
            raise ModelError(
                "no such net has this depth",
                got=self.depth,
                expected=f"{self.num_plain} plain convolutions, a highway layer or more in each of "
                f"{len(self.widths)} stages, a classifier",
                hint=f"Nearest: {fewest}.",
            )

    @property
    def num_plain(self) -> int:
        """Convolutions without a gate: one where the number of channels changes."""
        return 1 + sum(a != b for a, b in zip(self.widths, self.widths[1:], strict=False))

    @property
    def depths(self) -> tuple[int, ...]:
        """Highway layers of each stage.

        >>> ConvHighwaySpec(depth=32).depths
        (10, 9, 9)
        """
        each, rest = divmod(self.depth - self.num_plain - 1, len(self.widths))
        return tuple(each + (stage < rest) for stage in range(len(self.widths)))


def build_conv_highway(*, depth: int, **options: Any) -> ConvNet:
    """A convolutional net of `depth` layers; `options` are those of ConvHighwaySpec.

    shortcut="none" makes it plain: H alone, without gates, at the same widths.
    """
    spec = ConvHighwaySpec(depth=depth, **options)
    stem = gated_block(_conv(spec.in_channels, spec.widths[0]), None, spec)
    return ConvNet(stem, list(_build_stages(spec)), _build_head(spec), spec=spec, depth=depth)


def _build_stages(spec: ConvHighwaySpec) -> Iterator[Stage]:
    in_channels = spec.widths[0]
    for index, (depth, width) in enumerate(zip(spec.depths, spec.widths, strict=True)):
        blocks: list[nn.Module] = []
        if index:
            blocks.append(nn.MaxPool2d(2, ceil_mode=True))
        if width != in_channels:
            blocks.append(gated_block(_conv(in_channels, width), None, spec))
        blocks += [
            gated_block(_conv(width, width), _conv(width, width), spec) for _ in range(depth)
        ]
        in_channels = width
        yield Stage(blocks=blocks, channels=width, reduction=2**index)


def _build_head(spec: ConvHighwaySpec) -> nn.Sequential:
    features = spec.widths[-1] * spec.head_size**2
    return nn.Sequential(
        OrderedDict(
            pool=nn.AdaptiveAvgPool2d(spec.head_size),
            flatten=nn.Flatten(),
            classifier=nn.Linear(features, spec.num_classes),
        )
    )


def _conv(in_channels: int, out_channels: int) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, 3, padding=1)
