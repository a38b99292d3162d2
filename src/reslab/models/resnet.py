"""Post-activation nets of He 2015: what the CIFAR and the ImageNet families share."""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from reslab.errors import ModelError
from reslab.models.convert import RESNET_LAYOUTS
from reslab.models.convnet import ConvNet, Stage, build_head, linear_rule
from reslab.nn import (
    ResidualBlock,
    basic_branch,
    bottleneck_branch,
    build_shortcut,
    init_he,
    init_zero_branches,
)
from reslab.nn.shortcut import shortcut_policy

__all__ = ["ResNetSpec", "build_block", "build_resnet"]


@dataclass(frozen=True, kw_only=True)
class ResNetSpec:
    """The numbers of a net: blocks per stage, channels per stage before expansion, and options.

    A bottleneck's inner width is width * width_factor; its output width * expansion.
    `stride_on` says where a bottleneck strides: "1x1" (2015 original) or "3x3" (torchvision).
    """

    depths: tuple[int, ...]
    widths: tuple[int, ...]
    block: str = "basic"
    expansion: int = 4
    groups: int = 1
    width_factor: int = 1
    stride_on: str = "3x3"
    shortcut: str = "projection"
    stem: str = "imagenet"
    num_classes: int = 1000
    in_channels: int = 3
    zero_init_branch: bool = False
    drop_path: float = 0.0
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shortcut", shortcut_policy(self.shortcut))
        for name, legal in (
            ("block", ("basic", "bottleneck")),
            ("stem", ("imagenet", "cifar")),
            ("stride_on", ("3x3", "1x1")),
        ):
            if getattr(self, name) not in legal:
                raise ModelError(
                    f"unknown {name}", got=getattr(self, name), expected=f"one of {legal}"
                )
        for name in ("num_classes", "in_channels", "groups", "width_factor"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
        for name in ("zero_init_branch", "checkpoint_activations"):
            if not isinstance(getattr(self, name), bool):
                raise ModelError(f"{name} is wrong", got=getattr(self, name), expected="a boolean")
        if isinstance(self.drop_path, str) or not 0 <= self.drop_path < 1:
            raise ModelError("drop_path is wrong", got=self.drop_path, expected="0 up to below 1")

    @property
    def depth(self) -> int:
        """Weighted layers as the papers count them: convolutions on the branches, stem, classifier."""
        return sum(self.depths) * (2 if self.block == "basic" else 3) + 2

    @property
    def widening(self) -> int:
        """Channels that a block gives, over its width."""
        return self.expansion if self.block == "bottleneck" else 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def build_resnet(spec: ResNetSpec) -> ConvNet:
    """The net of these numbers, with He initialisation."""
    net = ConvNet(
        _build_stem(spec),
        list(_build_stages(spec)),
        build_head(spec.widths[-1] * spec.widening, spec.num_classes),
        spec=spec,
        depth=spec.depth,
        layouts=RESNET_LAYOUTS,
    )
    init_he(net)
    if spec.zero_init_branch:
        init_zero_branches(net)
    return net


def _build_stem(spec: ResNetSpec) -> nn.Sequential:
    width = spec.widths[0]
    if spec.stem == "cifar":
        conv = nn.Conv2d(spec.in_channels, width, 3, padding=1, bias=False)
    else:
        conv = nn.Conv2d(spec.in_channels, width, 7, stride=2, padding=3, bias=False)
    layers = OrderedDict[str, nn.Module](conv=conv, norm=nn.BatchNorm2d(width), act=nn.ReLU())
    if spec.stem == "imagenet":
        layers["pool"] = nn.MaxPool2d(3, stride=2, padding=1)
    return nn.Sequential(layers)


def _build_stages(spec: ResNetSpec) -> Iterator[Stage]:
    in_channels = spec.widths[0]
    reduction = 4 if spec.stem == "imagenet" else 1
    drop_paths = iter(linear_rule(spec.drop_path, sum(spec.depths)))
    for index, (depth, width) in enumerate(zip(spec.depths, spec.widths, strict=True)):
        blocks = []
        for position in range(depth):
            stride = 2 if index > 0 and position == 0 else 1
            block = build_block(spec, in_channels, width, stride=stride, drop_path=next(drop_paths))
            in_channels = width * spec.widening
            reduction *= stride
            blocks.append(block)
        yield Stage(blocks=blocks, channels=in_channels, reduction=reduction)


def build_block(
    spec: ResNetSpec, in_channels: int, width: int, *, stride: int = 1, drop_path: float = 0.0
) -> ResidualBlock:
    """One post-activation block of the spec's kind."""
    branch: nn.Module
    if spec.block == "basic":
        out_channels = width
        branch = basic_branch(in_channels, out_channels, stride=stride)
    else:
        out_channels = width * spec.expansion
        branch = bottleneck_branch(
            in_channels,
            width * spec.width_factor,
            out_channels,
            strides=(stride, 1) if spec.stride_on == "1x1" else (1, stride),
            groups=spec.groups,
        )
    shortcut = build_shortcut(spec.shortcut, in_channels, out_channels, stride=stride)
    block = ResidualBlock(branch, shortcut, after=nn.ReLU(), drop_path=drop_path)
    block.checkpoint_activations = spec.checkpoint_activations
    return block
