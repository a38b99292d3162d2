"""Post-activation nets of He 2015: what the CIFAR and the ImageNet families share."""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from reslab.errors import ModelError
from reslab.models.convert import RESNET_LAYOUTS, Layout, timm_resnet_layout
from reslab.models.convnet import ConvNet, Stage, build_head, linear_rule
from reslab.nn import (
    ResidualBlock,
    basic_branch,
    bottleneck_branch,
    build_shortcut,
    init_he,
    init_zero_branches,
)
from reslab.nn.activation import build_activation, replace_activations
from reslab.nn.init import add_fixup_scalars, check_init, initialise, remove_norms, shifted
from reslab.nn.scale import build_scale
from reslab.nn.shortcut import shortcut_policy
from reslab.nn.squeeze import SqueezeExcite

__all__ = ["ResNetSpec", "build_block", "build_resnet"]


@dataclass(frozen=True, kw_only=True)
class ResNetSpec:
    """The numbers of a net: blocks per stage, channels per stage before expansion, and options.

    A bottleneck's inner width is width * width_factor; its output width * expansion.
    `stride_on` says where a bottleneck strides: "1x1" (2015 original) or "3x3" (torchvision; ResNet-B
    of He 2018, arXiv 1812.01187). `stem`: "imagenet" (7x7, stride 2, and pooling), "deep" (three 3x3
    in place of the 7x7: ResNet-C) or "cifar" (one 3x3). `shortcut_pool`: a shortcut that strides does
    so by 2x2 average pooling (ResNet-D). `squeeze`: a squeeze-and-excitation gate with this reduction
    ends each branch (the paper's 16); None for no gate.
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
    shortcut_pool: bool = False
    squeeze: int | None = None
    zero_init_branch: bool = False
    drop_path: float = 0.0
    norm: str = "batch"
    init: str = "he"
    activation: str = "relu"
    branch_scale: str | float = "none"
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shortcut", shortcut_policy(self.shortcut))
        for name, legal in (
            ("block", ("basic", "bottleneck")),
            ("stem", ("imagenet", "deep", "cifar")),
            ("stride_on", ("3x3", "1x1")),
            ("norm", ("batch", "none")),
        ):
            if getattr(self, name) not in legal:
                raise ModelError(
                    f"unknown {name}", got=getattr(self, name), expected=f"one of {legal}"
                )
        for name in ("num_classes", "in_channels", "groups", "width_factor", "squeeze"):
            value = getattr(self, name)
            if name == "squeeze" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
        for name in ("shortcut_pool", "zero_init_branch", "checkpoint_activations"):
            if not isinstance(getattr(self, name), bool):
                raise ModelError(f"{name} is wrong", got=getattr(self, name), expected="a boolean")
        if isinstance(self.drop_path, str) or not 0 <= self.drop_path < 1:
            raise ModelError("drop_path is wrong", got=self.drop_path, expected="0 up to below 1")
        self._check_scales_and_init()

    def _check_scales_and_init(self) -> None:
        build_scale(self.branch_scale, channels=1, blocks=1)
        build_activation(self.activation)
        check_init(
            self.init,
            norm=self.norm,
            activation=self.activation,
            branch_scale=self.branch_scale,
            residual=self.shortcut != "none",
        )
        if self.activation == "crelu" and self.shortcut != "none":
            raise ModelError(
                "a mirrored rectifier after the sum doubles the channels of every block",
                got=f"activation='crelu', shortcut={self.shortcut!r}",
                hint="Use shortcut='none' or activation='prelu'.",
            )

    @property
    def depth(self) -> int:
        """Weighted layers as the papers count them: convolutions on the branches, stem, classifier.

        A deep stem has three, so ResNet-50-D has 52.
        """
        stem = 3 if self.stem == "deep" else 1
        return sum(self.depths) * (2 if self.block == "basic" else 3) + stem + 1

    @property
    def widening(self) -> int:
        """Channels that a block gives, over its width."""
        return self.expansion if self.block == "bottleneck" else 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def build_resnet(spec: ResNetSpec) -> ConvNet:
    """The net of these numbers, its weights drawn by `spec.init`."""
    net = ConvNet(
        _adapt_edge(spec, _build_stem(spec), is_stem=True),
        list(_build_stages(spec)),
        _adapt_edge(
            spec, build_head(spec.widths[-1] * spec.widening, spec.num_classes), is_stem=False
        ),
        spec=spec,
        depth=spec.depth,
        layouts=(*RESNET_LAYOUTS, _timm_layout(spec)),
    )
    if spec.init == "he":
        init_he(net)  # the classifier keeps torch's start, as it always did here
    else:
        initialise(net, spec.init, activation=spec.activation)
    if spec.zero_init_branch:
        init_zero_branches(net)
    return net


def _timm_layout(spec: ResNetSpec) -> Layout:
    return timm_resnet_layout(deep_stem=spec.stem == "deep", shortcut_pool=spec.shortcut_pool)


def _build_stem(spec: ResNetSpec) -> nn.Sequential:
    width = spec.widths[0]
    layers = OrderedDict[str, nn.Module]()
    for number, (out_channels, kernel, stride) in enumerate(_stem_convs(spec, width), start=1):
        # The first is called conv in every stem: weights are adapted to other inputs by that name.
        suffix = str(number) if number > 1 else ""
        in_channels = spec.in_channels if number == 1 else width // 2
        layers[f"conv{suffix}"] = nn.Conv2d(
            in_channels, out_channels, kernel, stride=stride, padding=kernel // 2, bias=False
        )
        layers[f"norm{suffix}"] = nn.BatchNorm2d(out_channels)
        layers[f"act{suffix}"] = nn.ReLU()
    if spec.stem != "cifar":
        layers["pool"] = nn.MaxPool2d(3, stride=2, padding=1)
    return nn.Sequential(layers)


def _stem_convs(spec: ResNetSpec, width: int) -> tuple[tuple[int, int, int], ...]:
    """(channels, kernel, stride) of each convolution."""
    return {
        "imagenet": ((width, 7, 2),),
        "deep": ((width // 2, 3, 2), (width // 2, 3, 1), (width, 3, 1)),
        "cifar": ((width, 3, 1),),
    }[spec.stem]


def _build_stages(spec: ResNetSpec) -> Iterator[Stage]:
    in_channels = spec.widths[0]
    reduction = 1 if spec.stem == "cifar" else 4
    drop_paths = iter(linear_rule(spec.drop_path, sum(spec.depths)))
    for index, (depth, width) in enumerate(zip(spec.depths, spec.widths, strict=True)):
        blocks = []
        for position in range(depth):
            stride = 2 if index > 0 and position == 0 else 1
            block = build_block(spec, in_channels, width, stride=stride, drop_path=next(drop_paths))
            in_channels = width * spec.widening
            reduction *= stride
            blocks.append(block)
        channels = in_channels * (2 if spec.activation == "crelu" else 1)
        yield Stage(blocks=blocks, channels=channels, reduction=reduction)


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
    if spec.squeeze is not None:
        branch.add_module("squeeze", SqueezeExcite(out_channels, reduction=spec.squeeze))
    shortcut = _build_shortcut(spec, in_channels, out_channels, stride=stride)
    scale = build_scale(spec.branch_scale, channels=out_channels, blocks=sum(spec.depths))
    block = ResidualBlock(branch, shortcut, after=nn.ReLU(), scale=scale, drop_path=drop_path)
    block.checkpoint_activations = spec.checkpoint_activations
    _adapt(spec, block, reads_activation=True)
    if spec.init == "fixup":
        add_fixup_scalars(block)
    return block


def _adapt(spec: ResNetSpec, part: nn.Module, *, reads_activation: bool) -> None:
    """Norms and activations as the spec wants them; parts are built with batch norm and ReLU."""
    if spec.norm == "none":
        remove_norms(part)
    if spec.activation != "relu":
        replace_activations(part, spec.activation, reads_activation=reads_activation)


def _adapt_edge(spec: ResNetSpec, part: nn.Sequential, *, is_stem: bool) -> nn.Sequential:
    """The same for stem and head; a stem reads images, a head reads activations."""
    _adapt(spec, part, reads_activation=not is_stem)
    return shifted(part, first=not is_stem) if spec.init == "fixup" else part


def _build_shortcut(
    spec: ResNetSpec, in_channels: int, out_channels: int, *, stride: int
) -> nn.Module:
    if not spec.shortcut_pool or stride == 1 or spec.shortcut == "none":
        return build_shortcut(spec.shortcut, in_channels, out_channels, stride=stride)
    # ceil_mode: as many pixels as a strided convolution gives; edges average what there is.
    pool = nn.AvgPool2d(stride, ceil_mode=True, count_include_pad=False)
    widen = build_shortcut(spec.shortcut, in_channels, out_channels, stride=1)
    return nn.Sequential(OrderedDict(pool=pool, widen=widen))
