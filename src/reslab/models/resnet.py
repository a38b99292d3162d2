"""Stem, stages of residual blocks, head: the assembly that every convolutional family shares."""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.nn import (
    Projection,
    ResidualBlock,
    basic_branch,
    bottleneck_branch,
    build_shortcut,
    init_he,
    init_zero_branches,
)
from reslab.nn.shortcut import shortcut_policy

__all__ = ["ResNet", "ResNetSpec"]


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

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


class ResNet(nn.Module):
    """A net of residual (or plain) blocks: [N, in_channels, H, W] -> logits [N, num_classes].

    `name` and `options` are what `create_model` was asked for; they travel with the weights.
    """

    def __init__(self, spec: ResNetSpec) -> None:
        super().__init__()
        self.spec = spec
        self.name = ""
        self.options: dict[str, Any] = {}
        self.stem = _build_stem(spec)
        self.stages = nn.Sequential(*_build_stages(spec))
        self.head = _build_head(self.features_width, spec.num_classes)
        init_he(self)
        if spec.zero_init_branch:
            init_zero_branches(self)

    @property
    def features_width(self) -> int:
        """Channels that the head reads."""
        return self.spec.widths[-1] * (self.spec.expansion if self.spec.block != "basic" else 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch of images."""
        return self.head(self.stages(self.stem(x)))

    def extra_repr(self) -> str:
        """What an architecture listing must not leave open."""
        spec = self.spec
        return f"depth={spec.depth}, shortcut={spec.shortcut}, stride_on={spec.stride_on}"


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


def _build_stages(spec: ResNetSpec) -> Iterator[nn.Sequential]:
    in_channels = spec.widths[0]
    drop_paths = _linear_rule(spec.drop_path, sum(spec.depths))
    for index, (depth, width) in enumerate(zip(spec.depths, spec.widths, strict=True)):
        blocks = []
        for position in range(depth):
            stride = 2 if index > 0 and position == 0 else 1
            block = build_block(spec, in_channels, width, stride=stride, drop_path=next(drop_paths))
            in_channels = width * (spec.expansion if spec.block == "bottleneck" else 1)
            blocks.append(block)
        yield nn.Sequential(*blocks)


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


def _linear_rule(last: float, blocks: int) -> Iterator[float]:
    """Drop rates that rise linearly to `last` (stochastic depth, arXiv 1603.09382)."""
    return (last * number / blocks for number in range(1, blocks + 1))


def _build_head(features: int, num_classes: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            classifier=nn.Linear(features, num_classes),
        )
    )


def count_depth(model: nn.Module) -> int:
    """Convolutions and linear layers outside projections: the papers' depth, counted on the net."""
    shortcuts = {id(m) for p in model.modules() if isinstance(p, Projection) for m in p.modules()}
    weighted = (m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear))
    return sum(id(m) not in shortcuts for m in weighted)
