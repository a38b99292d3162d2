"""DenseNets (Huang 2017, arXiv 1608.06993): each layer reads what all layers before it gave.

    net          layers a stage   growth   stem
    densenet121  6 12 24 16       32       64
    densenet161  6 12 36 24       48       96
    densenet169  6 12 32 32       32       64
    densenet201  6 12 48 32       32       64

A dense layer is a block whose shortcut is x and whose merge is concatenation: its branch adds
`growth` channels. Between stages a transition (norm, ReLU, 1x1, 2x2 average pooling) keeps the share
`compression` of the channels; here it opens the stage that follows it, so that `features` gives what
a dense block gives. Depths count the transitions' convolutions. Parameters, and logits for the same
weights, are torchvision's. The CIFAR nets of the paper: `cifar_densenet`.

    reslab models "densenet*"
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
from reslab.nn import Concat, Identity, ResidualBlock
from reslab.nn.branch import dense_branch

__all__ = ["DenseNetSpec", "build_densenet", "build_imagenet_densenet"]

# Parameters and MACs are torchvision's; errors those of the authors' repository, 1 crop.
FAMILY = {
    "build": "build_imagenet_densenet",
    "spec": "DenseNetSpec",
    "fixed": ("stem",),
    "input_shape": (3, 224, 224),
    "source": "Huang 2017, 1 crop",
    "numbered": {"densenet": {}},
    "smallest": {"depth": 21, "depths": (2, 2, 2, 2), "growth": 8, "stem_channels": 16},
    "smallest_shape": (3, 32, 32),
    "nets": {
        "densenet121": {
            "options": {"depth": 121},
            "depth": 121,
            "parameters": 7_978_856,
            "macs": 2_834_161_664,
            "paper_error": "25.0",
        },
        "densenet161": {
            "options": {"depth": 161},
            "depth": 161,
            "parameters": 28_681_000,
            "macs": 7_727_907_072,
            "paper_error": "22.2",
        },
        "densenet169": {
            "options": {"depth": 169},
            "depth": 169,
            "parameters": 14_149_480,
            "macs": 3_359_843_328,
            "paper_error": "23.6",
        },
        "densenet201": {
            "options": {"depth": 201},
            "depth": 201,
            "parameters": 20_013_928,
            "macs": 4_291_365_888,
            "paper_error": "22.5",
        },
    },
}

# Layers a stage, growth, channels of the stem.
_TABLE_1 = {
    121: ((6, 12, 24, 16), 32, 64),
    161: ((6, 12, 36, 24), 48, 96),
    169: ((6, 12, 32, 32), 32, 64),
    201: ((6, 12, 48, 32), 32, 64),
}


@dataclass(frozen=True, kw_only=True)
class DenseNetSpec:
    """The numbers of a DenseNet: layers per stage, channels that each adds, and options.

    `bottleneck` is the 1x1's width over `growth` (0: no 1x1); `compression` the share of channels
    that a transition keeps (1: all). `dropout` follows each convolution but the first. `stem` is
    "imagenet" (7x7, stride 2, and pooling) or "cifar" (3x3).
    """

    depths: tuple[int, ...]
    growth: int
    stem_channels: int
    bottleneck: int = 4
    compression: float = 0.5
    stem: str = "imagenet"
    dropout: float = 0.0
    num_classes: int = 1000
    in_channels: int = 3
    checkpoint_activations: bool = False

    def __post_init__(self) -> None:
        if not self.depths or min(self.depths) < 1:
            raise ModelError("depths is wrong", got=self.depths, expected="whole numbers from 1")
        for name in ("growth", "stem_channels", "bottleneck", "num_classes", "in_channels"):
            value, least = getattr(self, name), 0 if name == "bottleneck" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ModelError(
                    f"{name} is wrong", got=value, expected=f"a whole number from {least}"
                )
        if self.stem not in ("imagenet", "cifar"):
            raise ModelError("unknown stem", got=self.stem, expected="imagenet or cifar")
        if isinstance(self.compression, bool | str) or not 0 < self.compression <= 1:
            raise ModelError(
                "compression is wrong", got=self.compression, expected="above 0 up to 1"
            )
        if isinstance(self.dropout, str) or not 0 <= self.dropout < 1:
            raise ModelError("dropout is wrong", got=self.dropout, expected="0 up to below 1")
        if not isinstance(self.checkpoint_activations, bool):
            raise ModelError(
                "checkpoint_activations is wrong",
                got=self.checkpoint_activations,
                expected="a boolean",
            )

    @property
    def depth(self) -> int:
        """Convolutions of layers and transitions, stem and classifier."""
        return sum(self.depths) * (2 if self.bottleneck else 1) + len(self.depths) + 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


def build_imagenet_densenet(
    *, depth: int, depths: tuple[int, ...] | None = None, **options: Any
) -> ConvNet:
    """A net of table 1, or of `depths` layers a stage; `options` are those of DenseNetSpec.

    ModelError names the nearest depths of the table, and refuses `depths` that make another `depth`.
    """
    known, growth, stem_channels = _TABLE_1.get(depth, (None, 32, 64))
    depths = depths or known
    if depths is None:
        nearest = sorted(_TABLE_1, key=lambda legal: abs(legal - depth))[:2]
        raise ModelError(
            f"no ImageNet DenseNet has {depth} layers",
            expected=f"one of {sorted(_TABLE_1)}, or depths that make {depth}",
            hint=f"Nearest: {nearest[0]} or {nearest[1]}.",
        )
    defaults = {"growth": growth, "stem_channels": stem_channels}
    spec = DenseNetSpec(depths=tuple(depths), **(defaults | options))
    if spec.depth != depth:
        raise ModelError(f"depths {depths} make {spec.depth} layers", expected=f"{depth} layers")
    return build_densenet(spec)


def build_densenet(spec: DenseNetSpec) -> ConvNet:
    """The net of these numbers, with He initialisation by what each convolution reads.

    By what it gives (`init_he`), each layer would double the maps until norms know their scale.
    """
    stages = list(_build_stages(spec))
    net = ConvNet(
        _build_stem(spec),
        stages,
        _build_head(stages[-1].channels, spec.num_classes),
        spec=spec,
        depth=spec.depth,
        layouts=(Layout("torchvision", tuple(_torchvision_names(spec))),),
    )
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return net


def _build_stem(spec: DenseNetSpec) -> nn.Sequential:
    width = spec.stem_channels
    if spec.stem == "cifar":
        return nn.Sequential(
            OrderedDict(conv=nn.Conv2d(spec.in_channels, width, 3, padding=1, bias=False))
        )
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(spec.in_channels, width, 7, stride=2, padding=3, bias=False),
            norm=nn.BatchNorm2d(width),
            act=nn.ReLU(),
            pool=nn.MaxPool2d(3, stride=2, padding=1),
        )
    )


def _build_stages(spec: DenseNetSpec) -> Iterator[Stage]:
    channels = spec.stem_channels
    reduction = 1 if spec.stem == "cifar" else 4
    for index, depth in enumerate(spec.depths):
        blocks: list[nn.Module] = []
        if index > 0:
            kept = int(channels * spec.compression)
            blocks.append(_build_transition(channels, kept, dropout=spec.dropout))
            channels, reduction = kept, reduction * 2
        for _ in range(depth):
            branch = dense_branch(
                channels, spec.growth, bottleneck=spec.bottleneck, dropout=spec.dropout
            )
            block = ResidualBlock(branch, Identity(), merge=Concat())
            block.checkpoint_activations = spec.checkpoint_activations
            blocks.append(block)
            channels += spec.growth
        yield Stage(blocks=blocks, channels=channels, reduction=reduction)


def _build_transition(in_channels: int, out_channels: int, *, dropout: float) -> nn.Sequential:
    """Norm - ReLU - 1x1 - 2x2 average pooling (section 3, compression)."""
    layers = OrderedDict[str, nn.Module](
        norm=nn.BatchNorm2d(in_channels),
        act=nn.ReLU(),
        conv=nn.Conv2d(in_channels, out_channels, 1, bias=False),
    )
    if dropout:
        layers["drop"] = nn.Dropout(dropout)
    layers["pool"] = nn.AvgPool2d(2)
    return nn.Sequential(layers)


def _build_head(features: int, num_classes: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            norm=nn.BatchNorm2d(features),
            act=nn.ReLU(),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            classifier=nn.Linear(features, num_classes),
        )
    )


def _torchvision_names(spec: DenseNetSpec) -> Iterator[tuple[str, str]]:
    """(ours, theirs): theirs keep transitions apart and count everything from 1."""
    yield "stem.conv", "features.conv0"
    yield "stem.norm", "features.norm0"
    for stage, depth in enumerate(spec.depths):
        transitions = 1 if stage > 0 else 0
        for part in ("norm", "conv") if transitions else ():
            yield f"stages.{stage}.0.{part}", f"features.transition{stage}.{part}"
        for layer in range(depth):
            theirs = f"features.denseblock{stage + 1}.denselayer{layer + 1}"
            for part in ("norm1", "conv1", "norm2", "conv2"):
                yield f"stages.{stage}.{layer + transitions}.branch.{part}", f"{theirs}.{part}"
    yield "head.norm", f"features.norm{len(spec.depths) + 1}"
    yield "head.classifier", "classifier"
