"""VGG nets (Simonyan 2014, arXiv 1409.1556, table 1): plain 3x3 convolutions in five stages.

    depth   convolutions a stage   column of table 1
    11      1 1 2 2 2              A
    13      2 2 2 2 2              B
    16      2 2 3 3 3              D
    19      2 2 4 4 4              E

Channels 64, 128, 256, 512, 512; each stage ends with 2x2 max-pooling, so an image of 224 pixels gives
maps of 112, 56, 28, 14 and 7. Three linear layers follow. The names with `_bn` have batch norm after
each convolution, which the paper had not. Every convolution but the first is a block whose shortcut
is zero: what these nets lack beside a residual net is that one part. Parameters, and logits for the
same weights, are torchvision's.

    reslab models "vgg*"
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from reslab.errors import ModelError
from reslab.models.convert import Layout
from reslab.models.convnet import ConvNet, Stage
from reslab.nn import ResidualBlock, Zero, init_he

__all__ = ["VGGSpec", "build_vgg"]

FAMILY = {
    "build": "build_vgg",
    "spec": "VGGSpec",
    "fixed": ("depths",),
    "input_shape": (3, 224, 224),
    "source": "Simonyan 2014, table 1",
    "numbered": {"vgg": {}},
    "smallest": {"depth": 11, "width": 8, "norm": True, "head_width": 64, "dropout": 0.0},
    "smallest_shape": (3, 32, 32),
    "nets": {
        "vgg11": {
            "options": {"depth": 11},
            "depth": 11,
            "parameters": 132_863_336,
            "macs": 7_609_090_048,
        },
        "vgg11_bn": {
            "options": {"depth": 11, "norm": True},
            "depth": 11,
            "parameters": 132_868_840,
            "macs": 7_609_090_048,
        },
        "vgg13": {
            "options": {"depth": 13},
            "depth": 13,
            "parameters": 133_047_848,
            "macs": 11_308_466_176,
        },
        "vgg13_bn": {
            "options": {"depth": 13, "norm": True},
            "depth": 13,
            "parameters": 133_053_736,
            "macs": 11_308_466_176,
        },
        "vgg16": {
            "options": {"depth": 16},
            "depth": 16,
            "parameters": 138_357_544,
            "macs": 15_470_264_320,
        },
        "vgg16_bn": {
            "options": {"depth": 16, "norm": True},
            "depth": 16,
            "parameters": 138_365_992,
            "macs": 15_470_264_320,
        },
        "vgg19": {
            "options": {"depth": 19},
            "depth": 19,
            "parameters": 143_667_240,
            "macs": 19_632_062_464,
        },
        "vgg19_bn": {
            "options": {"depth": 19, "norm": True},
            "depth": 19,
            "parameters": 143_678_248,
            "macs": 19_632_062_464,
        },
    },
}

_TABLE_1 = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}
_GRID = 7  # pixels a side that the first linear layer reads


@dataclass(frozen=True, kw_only=True)
class VGGSpec:
    """The numbers of a VGG: convolutions per stage, and options.

    `width` is the first stage's channels; they double to 8 * width at most. `head_width` is that of
    the two hidden linear layers, each followed by `dropout`. `norm` puts batch norm after each
    convolution.
    """

    depths: tuple[int, ...]
    width: int = 64
    norm: bool = False
    head_width: int = 4096
    dropout: float = 0.5
    num_classes: int = 1000
    in_channels: int = 3
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        for name in ("width", "head_width", "num_classes", "in_channels"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
        for name in ("norm", "checkpoint_activations"):
            if not isinstance(getattr(self, name), bool):
                raise ModelError(f"{name} is wrong", got=getattr(self, name), expected="a boolean")
        if isinstance(self.dropout, str) or not 0 <= self.dropout < 1:
            raise ModelError("dropout is wrong", got=self.dropout, expected="0 up to below 1")

    @property
    def depth(self) -> int:
        """Convolutions and the three linear layers."""
        return sum(self.depths) + 3

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each stage."""
        return tuple(self.width * min(2**stage, 8) for stage in range(len(self.depths)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def build_vgg(*, depth: int, **options: Any) -> ConvNet:
    """A net of table 1; `options` are those of VGGSpec. ModelError names the nearest depths."""
    if depth not in _TABLE_1:
        nearest = sorted(_TABLE_1, key=lambda legal: abs(legal - depth))[:2]
        raise ModelError(
            f"no VGG has {depth} layers",
            expected=f"one of {sorted(_TABLE_1)}",
            hint=f"Nearest: {nearest[0]} or {nearest[1]}.",
        )
    spec = VGGSpec(depths=_TABLE_1[depth], **options)
    net = ConvNet(
        nn.Sequential(_conv(spec, spec.in_channels, spec.width) | {"act": nn.ReLU()}),
        list(_build_stages(spec)),
        _build_head(spec),
        spec=spec,
        depth=spec.depth,
        layouts=(Layout("torchvision", tuple(_torchvision_names(spec))),),
    )
    _init_weights(net)
    return net


def _conv(spec: VGGSpec, in_channels: int, out_channels: int) -> OrderedDict[str, nn.Module]:
    layers = OrderedDict[str, nn.Module](conv=nn.Conv2d(in_channels, out_channels, 3, padding=1))
    if spec.norm:
        layers["norm"] = nn.BatchNorm2d(out_channels)
    return layers


def _build_stages(spec: VGGSpec) -> Iterator[Stage]:
    in_channels = spec.width
    for index, (depth, width) in enumerate(zip(spec.depths, spec.widths, strict=True)):
        blocks: list[nn.Module] = []
        for _ in range(depth - (index == 0)):  # the stem is the first stage's first convolution
            branch = nn.Sequential(_conv(spec, in_channels, width))
            block = ResidualBlock(branch, Zero(), after=nn.ReLU())
            block.checkpoint_activations = spec.checkpoint_activations
            blocks.append(block)
            in_channels = width
        blocks.append(nn.MaxPool2d(2))
        yield Stage(blocks=blocks, channels=width, reduction=2 ** (index + 1))


def _build_head(spec: VGGSpec) -> nn.Sequential:
    layers = OrderedDict[str, nn.Module](pool=nn.AdaptiveAvgPool2d(_GRID), flatten=nn.Flatten())
    features = spec.widths[-1] * _GRID**2
    for number in (1, 2):
        layers[f"hidden{number}"] = nn.Linear(features, spec.head_width)
        layers[f"act{number}"] = nn.ReLU()
        layers[f"drop{number}"] = nn.Dropout(spec.dropout)
        features = spec.head_width
    layers["classifier"] = nn.Linear(features, spec.num_classes)
    return nn.Sequential(layers)


def _init_weights(net: ConvNet) -> None:
    """Convolutions as He 2015; linear layers from N(0, 0.01^2), as in torchvision; biases 0."""
    init_he(net)
    for module in net.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01)
        if isinstance(module, nn.Conv2d | nn.Linear):
            assert module.bias is not None, "VGG's layers have biases"
            nn.init.zeros_(module.bias)


def _torchvision_names(spec: VGGSpec) -> Iterator[tuple[str, str]]:
    """(ours, theirs): theirs count convolutions, norms, ReLUs and pools in one row."""
    position = 0
    for stage, depth in enumerate(spec.depths):
        for number in range(depth):
            block = number - 1 if stage == 0 else number
            ours = "stem" if block < 0 else f"stages.{stage}.{block}.branch"
            yield f"{ours}.conv", f"features.{position}"
            if spec.norm:
                yield f"{ours}.norm", f"features.{position + 1}"
            position += 3 if spec.norm else 2
        position += 1
    yield "head.hidden1", "classifier.0"
    yield "head.hidden2", "classifier.3"
    yield "head.classifier", "classifier.6"
