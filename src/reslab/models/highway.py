"""Highway nets, fully connected (Srivastava 2015, arXiv 1505.00387, section 3.1).

    [N, C, H, W] -> flatten -> plain layer -> depth - 1 highway layers -> softmax layer

    highway layer    y = T(x) H(x) + (1 - T(x)) x,   T(x) = sigmoid(W_T x + b_T),   b_T < 0 at first

`depth` is the paper's: the softmax layer is not counted. A highway layer of 50 units has 5100
parameters, a plain one of 71 units 5112, so that `highway50` and `plain_fc50` are a fair pair: the
tests check both figures. The images are MNIST's, 1x28x28. For the gates of a net see
`reslab.nn.gates`; the convolutional nets are in `conv_highway`.

    python -c "import reslab; print(reslab.create_model('highway50'))"
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.nn import GatedMerge, Identity, ResidualBlock, Zero
from reslab.registry import close_names

__all__ = [
    "HighwayNet",
    "HighwaySpec",
    "build_highway",
    "check_choices",
    "check_counts",
    "gated_block",
]

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}

FAMILY = {
    "build": "build_highway",
    "spec": "HighwaySpec",
    "input_shape": (1, 28, 28),
    "source": "Srivastava 2015, sec. 3.1",
    "numbered": {"highway": {}, "plain_fc": {"shortcut": "none"}},
    "smallest": {"depth": 4, "width": 32, "image_size": 8},
    "smallest_shape": (1, 8, 8),
    "nets": {
        "highway10": {"options": {"depth": 10}, "depth": 10, "parameters": 85_660, "macs": 84_700},
        "highway20": {
            "options": {"depth": 20},
            "depth": 20,
            "parameters": 136_660,
            "macs": 134_700,
        },
        "highway50": {
            "options": {"depth": 50},
            "depth": 50,
            "parameters": 289_660,
            "macs": 284_700,
        },
        "highway100": {
            "options": {"depth": 100},
            "depth": 100,
            "parameters": 544_660,
            "macs": 534_700,
        },
        "plain_fc10": {
            "options": {"depth": 10, "shortcut": "none"},
            "depth": 10,
            "parameters": 102_463,
            "macs": 101_743,
        },
        "plain_fc20": {
            "options": {"depth": 20, "shortcut": "none"},
            "depth": 20,
            "parameters": 153_583,
            "macs": 152_153,
        },
        "plain_fc50": {
            "options": {"depth": 50, "shortcut": "none"},
            "depth": 50,
            "parameters": 306_943,
            "macs": 303_383,
        },
        "plain_fc100": {
            "options": {"depth": 100, "shortcut": "none"},
            "depth": 100,
            "parameters": 562_543,
            "macs": 555_433,
        },
    },
}


@dataclass(frozen=True, kw_only=True)
class HighwaySpec:
    """The numbers of a fully connected net.

    `width` is 50 by default, or 71 for plain nets (shortcut="none"), which makes both equally large.
    Images are [in_channels, image_size, image_size]. `gate_bias` is b_T at first; -2 is what the
    paper's figure 2 shows for MNIST (random search over [-10, -1]). It has no effect on plain nets.
    """

    depth: int
    width: int | None = None
    in_channels: int = 1
    image_size: int = 28
    num_classes: int = 10
    shortcut: str = "identity"
    activation: str = "relu"
    gate_bias: float = -2.0
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        check_choices(self)
        if self.width is None:
            object.__setattr__(self, "width", 71 if self.shortcut == "none" else 50)
        check_counts(self, ("width", "in_channels", "image_size", "num_classes"))
        if not _is_count(self.depth) or self.depth < 2:
            raise ModelError(
                "no highway net has this depth",
                got=self.depth,
                expected="a plain layer and one highway layer or more",
                hint="Nearest: 2.",
            )


def check_choices(spec: Any) -> None:
    """ModelError for a shortcut, activation, gate_bias or checkpoint_activations out of range."""
    for name, legal in (("shortcut", ["identity", "none"]), ("activation", [*_ACTIVATIONS])):
        value = getattr(spec, name)
        if value not in legal:
            raise ModelError(
                f"unknown {name}",
                got=value,
                expected=" or ".join(legal),
                hint=close_names(str(value), legal),
            )
    bias = spec.gate_bias
    if not isinstance(bias, int | float) or isinstance(bias, bool) or not abs(bias) < 1e4:
        raise ModelError("gate_bias is wrong", got=bias, expected="a number such as -2")
    if not isinstance(spec.checkpoint_activations, bool):
        raise ModelError(
            "checkpoint_activations is wrong",
            got=spec.checkpoint_activations,
            expected="a boolean",
        )


def check_counts(spec: Any, names: tuple[str, ...]) -> None:
    """ModelError for a field that is not a whole number from 1."""
    for name in names:
        if not _is_count(getattr(spec, name)):
            raise ModelError(
                f"{name} is wrong", got=getattr(spec, name), expected="a whole number from 1"
            )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


class SoftmaxLayer(nn.Module):
    """Logits of the last, linear layer, [N, features] -> [N, num_classes].

    Not an nn.Linear because the paper's depth leaves this layer out, and reslab counts those.
    """

    def __init__(self, features: int, num_classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_classes, features))
        self.bias = nn.Parameter(torch.zeros(num_classes))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The affine map."""
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Both widths."""
        return f"features={self.weight.shape[1]}, num_classes={self.weight.shape[0]}"


class HighwayNet(nn.Module):
    """Images [N, in_channels, S, S] to logits [N, num_classes], by `stem`, `blocks` and `head`.

    Each of `blocks` maps [N, width] to [N, width]. `spec` and `depth` are as for ConvNet.
    """

    def __init__(
        self, stem: nn.Module, blocks: nn.Sequential, head: nn.Module, *, spec: HighwaySpec
    ) -> None:
        super().__init__()
        self.spec = spec
        self.depth = spec.depth
        self.origin: Any = None
        self.stem = stem
        self.blocks = blocks
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch of images; ModelError for images of another size."""
        expected = (self.spec.in_channels, self.spec.image_size, self.spec.image_size)
        if tuple(x.shape[1:]) != expected:
            raise ModelError(
                "these images do not fit a fully connected net",
                got=tuple(x.shape[1:]),
                expected=expected,
                hint="Build it with that in_channels and image_size.",
            )
        return self.head(self.blocks(self.stem(x)))

    def extra_repr(self) -> str:
        """What an architecture listing must not leave open."""
        return f"depth={self.depth}, shortcut={self.spec.shortcut}"


def build_highway(*, depth: int, **options: Any) -> HighwayNet:
    """A fully connected net of `depth` layers; `options` are those of HighwaySpec.

    shortcut="none" makes it plain: H alone, without gates.
    """
    spec = HighwaySpec(depth=depth, **options)
    width = spec.width
    assert width is not None, "the spec fills it in"
    pixels = spec.in_channels * spec.image_size**2
    stem = OrderedDict(
        flatten=nn.Flatten(), linear=nn.Linear(pixels, width), act=_ACTIVATIONS[spec.activation]()
    )
    blocks = [
        gated_block(nn.Linear(width, width), nn.Linear(width, width), spec)
        for _ in range(depth - 1)
    ]
    head = OrderedDict[str, nn.Module](classifier=SoftmaxLayer(width, spec.num_classes))
    net = HighwayNet(nn.Sequential(stem), nn.Sequential(*blocks), nn.Sequential(head), spec=spec)
    init_transform(net.stem.get_submodule("linear"), spec.activation)
    return net


def gated_block(transform: nn.Module, gate: nn.Module | None, spec: Any) -> ResidualBlock:
    """One highway layer from its two affine maps, or a plain one where `gate` is None.

    H is `transform` and then the spec's activation; its weights start from He's distribution for that
    activation with biases of zero. The gate's weights keep torch's, its bias starts at
    `spec.gate_bias`. A spec with shortcut="none" makes every layer plain.
    """
    init_transform(transform, spec.activation)
    branch = nn.Sequential(OrderedDict(linear=transform, act=_ACTIVATIONS[spec.activation]()))
    if gate is None or spec.shortcut == "none":
        block = ResidualBlock(branch, Zero())
    else:
        nn.init.constant_(_parameter(gate, "bias"), spec.gate_bias)
        block = ResidualBlock(branch, Identity(), merge=GatedMerge(gate))
    block.checkpoint_activations = spec.checkpoint_activations
    return block


def init_transform(layer: nn.Module, activation: str) -> None:
    """Weights from N(0, gain^2 / fan_in) (He et al. 2015, arXiv 1502.01852), biases zero."""
    nn.init.kaiming_normal_(_parameter(layer, "weight"), nonlinearity=activation)  # type: ignore[arg-type]
    nn.init.zeros_(_parameter(layer, "bias"))


def _parameter(layer: nn.Module, name: str) -> Tensor:
    parameter = getattr(layer, name)
    assert isinstance(parameter, Tensor), "affine maps have weights and biases"
    return parameter
