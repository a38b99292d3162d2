"""MobileNetV2 (Sandler 2018, arXiv 1801.04381, table 2): residuals between thin layers.

    stem       3x3, stride 2, to 32 channels
    stages     expansion  channels     blocks  pixels (of 224)
    0          1          16           1       112
    1          6          24           2       56
    2          6          32           3       28
    3          6          64, 96       4, 3    14
    4          6          160, 320     3, 1    7
    head       1x1 to 1280 channels, pooling, linear classifier

A block expands, convolves depthwise and projects without a non-linearity; x itself is the shortcut
where shapes agree and nothing follows the addition (fig. 4); elsewhere the block is plain.
Parameters, and logits for the same weights, are torchvision's. The paper names no depth; 53 is
reslab's count of weighted layers.

    reslab models "mobilenet*"
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from reslab.errors import ModelError
from reslab.models.convert import Layout
from reslab.models.convnet import ConvNet, Stage, count_depth
from reslab.nn import Identity, ResidualBlock, Zero, init_he
from reslab.nn.branch import inverted_branch

__all__ = ["MobileNetV2Spec", "build_mobilenet_v2", "round_channels"]

FAMILY = {
    "build": "build_mobilenet_v2",
    "spec": "MobileNetV2Spec",
    "input_shape": (3, 224, 224),
    "source": "Sandler 2018, table 2",
    "smallest": {"width_factor": 0.25, "dropout": 0.0},
    "smallest_shape": (3, 32, 32),
    "nets": {
        "mobilenet_v2": {
            "depth": 53,
            "parameters": 3_504_872,
            "macs": 300_774_272,
        },
        "mobilenet_v2_w050": {
            "options": {"width_factor": 0.5},
            "depth": 53,
            "parameters": 1_968_680,
            "macs": 97_131_840,
        },
        "mobilenet_v2_w140": {
            "options": {"width_factor": 1.4},
            "depth": 53,
            "parameters": 6_108_776,
            "macs": 582_195_824,
        },
    },
}


class _Row(NamedTuple):
    """A row of table 2: t, c, n and s there."""

    expansion: int
    channels: int
    blocks: int
    stride: int


_TABLE_2 = (
    (_Row(1, 16, 1, 1),),
    (_Row(6, 24, 2, 2),),
    (_Row(6, 32, 3, 2),),
    (_Row(6, 64, 4, 2), _Row(6, 96, 3, 1)),
    (_Row(6, 160, 3, 2), _Row(6, 320, 1, 1)),
)
_STEM_CHANNELS, _HEAD_CHANNELS = 32, 1280


@dataclass(frozen=True, kw_only=True)
class MobileNetV2Spec:
    """Options of the net: `width_factor` multiplies the channels of every layer (section 4).

    The last 1x1 convolution never gets fewer than 1280 channels for that. `dropout` stands before
    the classifier.
    """

    width_factor: float = 1.0
    dropout: float = 0.2
    num_classes: int = 1000
    in_channels: int = 3
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        for name in ("num_classes", "in_channels"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
        if isinstance(self.width_factor, bool | str) or not 0 < self.width_factor <= 100:
            raise ModelError(
                "width_factor is wrong", got=self.width_factor, expected="above 0, such as 1.4"
            )
        if isinstance(self.dropout, str) or not 0 <= self.dropout < 1:
            raise ModelError("dropout is wrong", got=self.dropout, expected="0 up to below 1")
        if not isinstance(self.checkpoint_activations, bool):
            raise ModelError(
                "checkpoint_activations is wrong",
                got=self.checkpoint_activations,
                expected="a boolean",
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def round_channels(channels: float) -> int:
    """The nearest multiple of 8, at least 8, and never below nine tenths of `channels`.

    >>> round_channels(24), round_channels(22.4), round_channels(11)
    (24, 24, 16)
    """
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def build_mobilenet_v2(**options: Any) -> ConvNet:
    """The net of table 2; `options` are those of MobileNetV2Spec."""
    spec = MobileNetV2Spec(**options)
    stem_channels = round_channels(_STEM_CHANNELS * spec.width_factor)
    net = ConvNet(
        nn.Sequential(
            OrderedDict(
                conv=nn.Conv2d(spec.in_channels, stem_channels, 3, 2, padding=1, bias=False),
                norm=nn.BatchNorm2d(stem_channels),
                act=nn.ReLU6(),
            )
        ),
        list(_build_stages(spec, stem_channels)),
        _build_head(spec),
        spec=spec,
        depth=0,
        layouts=(Layout("torchvision", tuple(_torchvision_names())),),
    )
    net.depth = count_depth(net)
    init_he(net)
    return net


def _build_stages(spec: MobileNetV2Spec, in_channels: int) -> Iterator[Stage]:
    reduction = 2
    for rows in _TABLE_2:
        blocks = []
        for row in rows:
            channels = round_channels(row.channels * spec.width_factor)
            for number in range(row.blocks):
                stride = row.stride if number == 0 else 1
                branch = inverted_branch(
                    in_channels, channels, stride=stride, expansion=row.expansion
                )
                same_shape = stride == 1 and in_channels == channels
                block = ResidualBlock(branch, Identity() if same_shape else Zero())
                block.checkpoint_activations = spec.checkpoint_activations
                blocks.append(block)
                in_channels = channels
                reduction *= stride
        yield Stage(blocks=blocks, channels=in_channels, reduction=reduction)


def _build_head(spec: MobileNetV2Spec) -> nn.Sequential:
    in_channels = round_channels(_TABLE_2[-1][-1].channels * spec.width_factor)
    features = round_channels(_HEAD_CHANNELS * max(1.0, spec.width_factor))
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(in_channels, features, 1, bias=False),
            norm=nn.BatchNorm2d(features),
            act=nn.ReLU6(),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            drop=nn.Dropout(spec.dropout),
            classifier=nn.Linear(features, spec.num_classes),
        )
    )


def _torchvision_names() -> Iterator[tuple[str, str]]:
    """(ours, theirs): theirs count the stem, all blocks and the head's convolution in one row."""
    position = 0
    for part, theirs in (("conv", "0"), ("norm", "1")):
        yield f"stem.{part}", f"features.0.{theirs}"
    for stage, rows in enumerate(_TABLE_2):
        expansions = [row.expansion for row in rows for _ in range(row.blocks)]
        for block, expansion in enumerate(expansions):
            position += 1
            for part, theirs in _branch_names(expansion):
                ours = f"stages.{stage}.{block}.branch.{part}"
                yield ours, f"features.{position}.conv.{theirs}"
    for part, theirs in (("conv", "0"), ("norm", "1")):
        yield f"head.{part}", f"features.{position + 1}.{theirs}"
    yield "head.classifier", "classifier.1"


def _branch_names(expansion: int) -> Iterator[tuple[str, str]]:
    """(ours, theirs) within a block: without an expansion, what follows it moves up by one."""
    if expansion != 1:
        yield from (("expand", "0.0"), ("norm1", "0.1"))
    first = 1 if expansion != 1 else 0
    yield from (("depthwise", f"{first}.0"), ("norm2", f"{first}.1"))
    yield from (("project", f"{first + 1}"), ("norm3", f"{first + 2}"))
