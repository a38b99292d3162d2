"""Nets of He 2016 in any activation order, with any shortcut: what the pre-activation families share.

The families themselves are preresnet (CIFAR), imagenet_preresnet and wide_resnet; the tables of the
orders are in `reslab.nn.order`. Edge rules of the paper's appendix, for the orders whose activation
comes first: the first unit applies it before its two sides part (`before`), as does every unit whose
shortcut is a projection, and the head begins with one.
"""

import dataclasses
import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from reslab.errors import ModelError
from reslab.models.convert import Layout
from reslab.models.convnet import ConvNet, Stage, build_head, linear_rule
from reslab.nn import GatedMerge, Identity, PadShortcut, Projection, ResidualBlock, Zero, init_he
from reslab.nn.order import ORDERS, find_order
from reslab.nn.scale import ScaledShortcut, build_scale
from reslab.nn.shortcut import GatedShortcut, build_gate
from reslab.registry import close_names

__all__ = ["PreResNetSpec", "assemble"]

_SHORTCUTS = (
    "identity",
    "none",
    "constant",
    "exclusive_gate",
    "shortcut_gate",
    "conv1x1",
    "dropout",
)
# What a value of a shortcut belongs to; elsewhere it would have no effect.
_VALUES = {
    "shortcut_scale": ("constant",),
    "gate_bias": ("exclusive_gate", "shortcut_gate"),
    "shortcut_dropout": ("dropout",),
}


@dataclass(frozen=True, kw_only=True)
class PreResNetSpec:
    """The numbers of a net: blocks per stage, channels per stage before expansion, and options.

    `shape_change=None` takes zero_pad for basic blocks and projection for bottlenecks. `dropout`
    is the probability of dropping a value between the convolutions of a branch. `branch_scale` is a
    number or a name of `reslab.nn.scale.SCALES`. Values out of range raise ModelError.
    """

    depths: tuple[int, ...]
    widths: tuple[int, ...]
    stem_width: int
    block: str = "basic"
    order: str = "pre"
    shortcut: str = "identity"
    shape_change: str | None = None
    shortcut_scale: float = 0.5
    branch_scale: str | float = 1.0
    gate_bias: float = -6.0
    shortcut_dropout: float = 0.5
    one_layer_skips: bool = False
    stride_on: str = "3x3"
    stem: str = "cifar"
    dropout: float = 0.0
    num_classes: int = 10
    in_channels: int = 3
    zero_init_branch: bool = False
    drop_path: float = 0.0
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        if self.shape_change is None:
            change = "zero_pad" if self.block == "basic" else "projection"
            object.__setattr__(self, "shape_change", change)
        _check_names(self)
        _check_numbers(self)
        _check_together(self)

    @property
    def depth(self) -> int:
        """Weighted layers as the paper counts them: convolutions on branches, stem, classifier."""
        return sum(self.depths) * self.branch_layers + 2

    @property
    def branch_layers(self) -> int:
        """Convolutions of a branch."""
        if self.one_layer_skips:
            return 1
        return 2 if self.block == "basic" else 3

    @property
    def expansion(self) -> int:
        """Channels that a block gives, over its width."""
        return 4 if self.block == "bottleneck" else 1


def _check_names(spec: PreResNetSpec) -> None:
    find_order(spec.order)
    for name, legal in (
        ("block", ("basic", "bottleneck")),
        ("shortcut", _SHORTCUTS),
        ("shape_change", ("zero_pad", "projection")),
        ("stem", ("cifar", "imagenet")),
        ("stride_on", ("3x3", "1x1")),
    ):
        value = getattr(spec, name)
        if value not in legal:
            hint = close_names(str(value), list(legal))
            raise ModelError(
                f"unknown {name}", got=value, expected=f"one of {', '.join(legal)}", hint=hint
            )


def _check_numbers(spec: PreResNetSpec) -> None:
    for name in ("num_classes", "in_channels", "stem_width"):
        value = getattr(spec, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
    for name in ("drop_path", "dropout", "shortcut_dropout"):
        value = getattr(spec, name)
        if isinstance(value, str) or not 0 <= value < 1:
            raise ModelError(f"{name} is wrong", got=value, expected="0 up to below 1")
    for name in ("shortcut_scale", "gate_bias"):
        value = getattr(spec, name)
        if isinstance(value, str) or not math.isfinite(value):
            raise ModelError(f"{name} is wrong", got=value, expected="a finite number")
    for name in ("one_layer_skips", "zero_init_branch", "checkpoint_activations"):
        if not isinstance(getattr(spec, name), bool):
            raise ModelError(f"{name} is wrong", got=getattr(spec, name), expected="a boolean")


def _check_together(spec: PreResNetSpec) -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(spec)}
    for name, kinds in _VALUES.items():
        if spec.shortcut not in kinds and getattr(spec, name) != defaults[name]:
            raise ModelError(
                f"{name} has no effect with shortcut={spec.shortcut!r}",
                got=getattr(spec, name),
                hint=f"It belongs to {' and '.join(kinds)}.",
            )
    if spec.one_layer_skips and (spec.block != "basic" or spec.dropout):
        raise ModelError("one_layer_skips needs basic blocks without dropout", got=spec.block)
    if spec.zero_init_branch and ORDERS[spec.order].ends_in_activation:
        raise ModelError(
            "a branch that ends in a ReLU cannot start at zero: no gradient would pass",
            got=f"order={spec.order!r}",
            hint="Leave zero_init_branch out, or take another order.",
        )


def assemble(spec: PreResNetSpec, *, layouts: tuple[Layout, ...] = ()) -> ConvNet:
    """The net of these numbers, with He initialisation; `layouts` are kept on it."""
    net = ConvNet(
        _build_stem(spec),
        list(_build_stages(spec)),
        _build_head(spec),
        spec=spec,
        depth=spec.depth,
        layouts=layouts,
    )
    init_he(net)
    if spec.zero_init_branch:
        _zero_branches(net)
    return net


def _build_stem(spec: PreResNetSpec) -> nn.Sequential:
    kernel, stride = (3, 1) if spec.stem == "cifar" else (7, 2)
    channels = (spec.in_channels, spec.stem_width)
    conv = nn.Conv2d(*channels, kernel, stride=stride, padding=kernel // 2, bias=False)
    layers = OrderedDict[str, nn.Module](conv=conv)
    layers.update(ORDERS[spec.order].after_layers(spec.stem_width))
    if spec.stem == "imagenet":
        layers["pool"] = nn.MaxPool2d(3, stride=2, padding=1)
    return nn.Sequential(layers)


def _build_head(spec: PreResNetSpec) -> nn.Sequential:
    channels = spec.widths[-1] * spec.expansion
    layers = OrderedDict[str, nn.Module](ORDERS[spec.order].before_layers(channels))
    layers.update(build_head(channels, spec.num_classes).named_children())
    return nn.Sequential(layers)


def _build_stages(spec: PreResNetSpec) -> Iterator[Stage]:
    in_channels = spec.stem_width
    reduction = 4 if spec.stem == "imagenet" else 1
    drop_paths = iter(linear_rule(spec.drop_path, sum(spec.depths)))
    for index, (depth, width) in enumerate(zip(spec.depths, spec.widths, strict=True)):
        blocks = []
        for position in range(depth):
            stride = 2 if index > 0 and position == 0 else 1
            shape = _Shape(in_channels, width * spec.expansion, stride)
            first = index == position == 0
            blocks.append(_build_block(spec, shape, first=first, drop_path=next(drop_paths)))
            in_channels = shape.out_channels
            reduction *= stride
        yield Stage(blocks=blocks, channels=in_channels, reduction=reduction)


class _Shape(NamedTuple):
    """What a block reads and gives."""

    in_channels: int
    out_channels: int
    stride: int

    @property
    def changes(self) -> bool:
        return self.in_channels != self.out_channels or self.stride != 1


def _build_block(
    spec: PreResNetSpec, shape: _Shape, *, first: bool, drop_path: float
) -> ResidualBlock:
    order = ORDERS[spec.order]
    carry = _build_carry(spec, shape)
    shared = first or isinstance(carry, Projection)
    gates = spec.shortcut == "exclusive_gate"
    block = ResidualBlock(
        order.branch(_convolutions(spec, shape), shared=shared, dropout=spec.dropout),
        _build_shortcut(spec, shape, carry),
        before=order.entry(shape.in_channels) if shared else None,
        merge=GatedMerge(_gate(spec, shape)) if gates else None,
        after=order.leave(shape.out_channels),
        scale=build_scale(spec.branch_scale, channels=shape.out_channels, blocks=sum(spec.depths)),
        drop_path=drop_path,
        allow_linear_branch=spec.one_layer_skips,
    )
    block.checkpoint_activations = spec.checkpoint_activations
    return block


def _convolutions(spec: PreResNetSpec, shape: _Shape) -> list[nn.Conv2d]:
    read, given, stride = shape
    if spec.block == "basic":
        convs = [nn.Conv2d(read, given, 3, stride=stride, padding=1, bias=False)]
        for _ in range(spec.branch_layers - 1):
            convs.append(nn.Conv2d(given, given, 3, padding=1, bias=False))
        return convs
    inner = given // spec.expansion
    outer_stride, inner_stride = (stride, 1) if spec.stride_on == "1x1" else (1, stride)
    return [
        nn.Conv2d(read, inner, 1, stride=outer_stride, bias=False),
        nn.Conv2d(inner, inner, 3, stride=inner_stride, padding=1, bias=False),
        nn.Conv2d(inner, given, 1, bias=False),
    ]


def _build_carry(spec: PreResNetSpec, shape: _Shape) -> nn.Module:
    """What carries x, before any scale, gate or dropout."""
    read, given, stride = shape
    if spec.shortcut == "conv1x1" or (shape.changes and spec.shape_change == "projection"):
        return Projection(read, given, stride=stride, norm=ORDERS[spec.order].ends_in_norm)
    if shape.changes:
        return PadShortcut(read, given, stride=stride)
    return Identity()


def _build_shortcut(spec: PreResNetSpec, shape: _Shape, carry: nn.Module) -> nn.Module:
    if spec.shortcut == "none":
        return Zero()
    if spec.shortcut == "constant":
        return ScaledShortcut(carry, spec.shortcut_scale)
    if spec.shortcut == "shortcut_gate":
        return GatedShortcut(_gate(spec, shape), carry)
    if spec.shortcut == "dropout":
        dropout = nn.Dropout(spec.shortcut_dropout)
        return nn.Sequential(OrderedDict(carry=carry, dropout=dropout))
    return carry


def _gate(spec: PreResNetSpec, shape: _Shape) -> nn.Conv2d:
    read, given, stride = shape
    return build_gate(read, given, stride=stride, bias=spec.gate_bias)


def _zero_branches(net: nn.Module) -> None:
    """The last layer of each branch, a norm or a convolution, gives zero at first."""
    for block in net.modules():
        if isinstance(block, ResidualBlock):
            last = list(block.branch.children())[-1]
            assert isinstance(last, nn.Conv2d | nn.BatchNorm2d), "activations are refused"
            nn.init.zeros_(last.weight)
