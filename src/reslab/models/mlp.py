"""Fully connected nets of any depth and width, plain and residual.

    pre     x + [norm - act - linear] x m   a norm and an activation before the classifier
    post    act(x + [linear - norm - act ... linear - norm])

Pictures [N, C, H, W] are flattened; `in_features` takes vectors [N, in_features] instead. With
norm="none" these are the nets in which gradients vanish (tanh, sigmoid) and explode (residual, He).

The shattering nets are those of Balduzzi 2017 (arXiv 1702.08591, figure 1): R -> R, 200 rectifiers a
layer. L layers are read as L layers of rectifiers, hence depth L + 1 with the last linear one; batch
norm, and biases of the first layer that spread the kinks over the line, are our choice. The tests
check the figure: gradients along the line are brown noise at L = 1, white at 24, between at 50 with
shortcuts, and browner again with branch_scale=0.1.

    reslab train resmlp20 -m norm=none -m branch_scale=rezero
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.models.convert import Layout
from reslab.models.convnet import linear_rule
from reslab.nn import Identity, ResidualBlock, Zero
from reslab.nn.activation import build_activation
from reslab.nn.init import add_fixup_scalars, check_init, initialise, shifted
from reslab.nn.scale import build_scale

__all__ = ["MLP", "MLPSpec", "build_mlp"]

FAMILY = {
    "build": "build_mlp",
    "spec": "MLPSpec",
    "input_shape": (3, 32, 32),
    "source": "Balduzzi 2017",
    "numbered": {"mlp": {"shortcut": "none"}, "resmlp": {}},
    "smallest": {"depth": 6, "width": 32, "image_size": 8},
    "smallest_shape": (3, 8, 8),
    "nets": {
        "shattering_mlp1": {
            "options": {
                "depth": 2,
                "shortcut": "none",
                "in_features": 1,
                "num_classes": 1,
                "bias_std": 1.0,
            },
            "depth": 2,
            "parameters": 1_001,
            "macs": 400,
            "input_shape": (1,),
            "source": "Balduzzi 2017, fig. 1",
        },
        "shattering_mlp24": {
            "options": {
                "depth": 25,
                "shortcut": "none",
                "in_features": 1,
                "num_classes": 1,
                "bias_std": 1.0,
            },
            "depth": 25,
            "parameters": 930_201,
            "macs": 920_400,
            "input_shape": (1,),
            "source": "Balduzzi 2017, fig. 1",
        },
        "shattering_resmlp50": {
            "options": {"depth": 51, "in_features": 1, "num_classes": 1, "bias_std": 1.0},
            "depth": 51,
            "parameters": 1_980_601,
            "macs": 1_960_400,
            "input_shape": (1,),
            "source": "Balduzzi 2017, fig. 1",
        },
    },
}
_NORMS = {"none": nn.Identity, "batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


@dataclass(frozen=True, kw_only=True)
class MLPSpec:
    """The numbers of a net: depth in weighted layers, width of every hidden layer, and options.

    `in_features=None` reads pictures of in_channels * image_size^2 values. `bias_std` draws the
    first layer's biases from N(0, bias_std^2); all others start at 0.
    """

    depth: int
    width: int = 200
    in_channels: int = 3
    image_size: int | None = 32
    in_features: int | None = None
    num_classes: int = 10
    layers_per_block: int = 1
    shortcut: str = "identity"
    order: str = "pre"
    activation: str = "relu"
    norm: str = "batch"
    init: str = "he"
    bias_std: float = 0.0
    branch_scale: str | float = "none"
    drop_path: float = 0.0
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_choices()
        below = self.depth - (self.depth - 2) % self.layers_per_block
        if below != self.depth or self.depth < 2:
            legal = [d for d in (below, below + self.layers_per_block) if d >= 2] or [2]
            raise ModelError(
                f"no net of {self.layers_per_block} layers a block has this depth",
                got=self.depth,
                expected=f"2 + a multiple of {self.layers_per_block}",
                hint=f"Nearest: {' or '.join(map(str, legal))}.",
            )

    def _check_numbers(self) -> None:
        for name in ("width", "in_channels", "num_classes", "layers_per_block"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
        for name in ("image_size", "in_features"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ModelError(f"{name} is wrong", got=value, expected="a whole number from 1")
        if self.image_size is None and self.in_features is None:
            raise ModelError("the first layer needs a size", hint="Give image_size or in_features.")
        if isinstance(self.drop_path, str) or not 0 <= self.drop_path < 1:
            raise ModelError("drop_path is wrong", got=self.drop_path, expected="0 up to below 1")
        if self.bias_std < 0:
            raise ModelError("bias_std is wrong", got=self.bias_std, expected="0 or more")

    def _check_choices(self) -> None:
        for name, legal in (
            ("shortcut", ("none", "identity")),
            ("order", ("pre", "post")),
            ("norm", tuple(_NORMS)),
            ("checkpoint_activations", (True, False)),
        ):
            if getattr(self, name) not in legal:
                raise ModelError(
                    f"unknown {name}", got=getattr(self, name), expected=f"one of {legal}"
                )
        build_activation(self.activation)
        build_scale(self.branch_scale, channels=1, blocks=1)
        residual = self.shortcut != "none"
        check_init(
            self.init,
            norm=self.norm,
            activation=self.activation,
            branch_scale=self.branch_scale,
            residual=residual,
        )
        if residual and self.order == "post" and self.activation == "crelu":
            raise ModelError(
                "a mirrored rectifier after the sum doubles the width of every block",
                hint="Use order='pre'.",
            )

    @property
    def num_blocks(self) -> int:
        """Blocks between the first layer and the classifier."""
        return (self.depth - 2) // self.layers_per_block

    @property
    def inputs(self) -> int:
        """Values of one flattened sample."""
        return self.in_features or self.in_channels * (self.image_size or 0) ** 2

    @property
    def act_width(self) -> int:
        """Features that an activation gives."""
        return self.width * (2 if self.activation == "crelu" else 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


class MLP(nn.Module):
    """Samples, flattened, to logits [N, num_classes], by a first layer, blocks and a classifier."""

    layouts: tuple[Layout, ...] = ()

    def __init__(self, spec: MLPSpec) -> None:
        super().__init__()
        self.spec = spec
        self.depth = spec.depth
        self.origin: Any = None
        self.stem = _build_stem(spec)
        self.blocks = nn.Sequential(*_build_blocks(spec))
        self.head = _build_head(spec)

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] or [N, in_features] -> [N, num_classes]."""
        return self.head(self.blocks(self.stem(x)))

    def extra_repr(self) -> str:
        """What an architecture listing must not leave open."""
        spec = self.spec
        return f"depth={self.depth}, shortcut={spec.shortcut}, order={spec.order}, init={spec.init}"


def build_mlp(*, depth: int, **options: Any) -> MLP:
    """A net of `depth` weighted layers; `options` are those of MLPSpec, which says what is illegal.

    >>> import torch
    >>> build_mlp(depth=4, width=8, in_features=3, num_classes=2)(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """
    spec = MLPSpec(depth=depth, **options)
    net = MLP(spec)
    initialise(net, spec.init, activation=spec.activation)
    if spec.bias_std:
        first = net.stem.get_submodule("linear")
        assert isinstance(first, nn.Linear) and first.bias is not None
        nn.init.normal_(first.bias, std=spec.bias_std)
    return net


def _linear(spec: MLPSpec, in_features: int) -> nn.Linear:
    # A batch norm behind it would take a bias away again, and Fixup has scalars instead.
    biased = spec.norm != "batch" and spec.init != "fixup"
    return nn.Linear(in_features, spec.width, bias=biased)


def _build_stem(spec: MLPSpec) -> nn.Sequential:
    layers = OrderedDict[str, nn.Module](flatten=nn.Flatten())
    layers["linear"] = nn.Linear(spec.inputs, spec.width)
    if spec.order == "post":
        layers["norm"] = _NORMS[spec.norm](spec.width)
        layers["act"] = build_activation(spec.activation)
    stem = nn.Sequential(layers)
    return shifted(stem, first=False) if spec.init == "fixup" else stem


def _build_blocks(spec: MLPSpec) -> Iterator[ResidualBlock]:
    for drop_path in linear_rule(spec.drop_path, spec.num_blocks):
        residual = spec.shortcut == "identity"
        block = ResidualBlock(
            _pre_branch(spec) if spec.order == "pre" else _post_branch(spec),
            Identity() if residual else Zero(),
            after=build_activation(spec.activation) if spec.order == "post" else None,
            scale=build_scale(spec.branch_scale, channels=spec.width, blocks=spec.num_blocks),
            drop_path=drop_path,
        )
        block.checkpoint_activations = spec.checkpoint_activations
        if spec.init == "fixup":
            add_fixup_scalars(block)
        yield block


def _pre_branch(spec: MLPSpec) -> nn.Sequential:
    layers = OrderedDict[str, nn.Module]()
    for number in range(1, spec.layers_per_block + 1):
        layers[f"norm{number}"] = _NORMS[spec.norm](spec.width)
        layers[f"act{number}"] = build_activation(spec.activation)
        layers[f"linear{number}"] = _linear(spec, spec.act_width)
    return nn.Sequential(layers)


def _post_branch(spec: MLPSpec) -> nn.Sequential:
    layers = OrderedDict[str, nn.Module]()
    for number in range(1, spec.layers_per_block + 1):
        if number > 1:
            layers[f"act{number - 1}"] = build_activation(spec.activation)
        layers[f"linear{number}"] = _linear(spec, spec.act_width)
        layers[f"norm{number}"] = _NORMS[spec.norm](spec.width)
    return nn.Sequential(layers)


def _build_head(spec: MLPSpec) -> nn.Sequential:
    layers = OrderedDict[str, nn.Module]()
    if spec.order == "pre":
        layers["norm"] = _NORMS[spec.norm](spec.width)
        layers["act"] = build_activation(spec.activation)
    layers["classifier"] = nn.Linear(spec.act_width, spec.num_classes)
    head = nn.Sequential(layers)
    return shifted(head) if spec.init == "fixup" else head
