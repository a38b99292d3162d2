"""Stem, stages of residual blocks, head: the assembly that every convolutional family shares."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from reslab.models.convert import Layout
from reslab.nn import ResidualBlock

__all__ = ["ConvNet", "FeatureInfo", "Stage", "build_head", "count_depth", "linear_rule"]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A run of blocks at one resolution: what it gives, and by how much the image is reduced."""

    blocks: Sequence[nn.Module]
    channels: int
    reduction: int


@dataclass(frozen=True, kw_only=True)
class FeatureInfo:
    """A feature map known beforehand: [N, channels, ceil(H / reduction), ceil(W / reduction)]."""

    name: str
    channels: int
    reduction: int


class ConvNet(nn.Module):
    """Images [N, in_channels, H, W] to logits [N, num_classes], by stem, stages and head.

    `depth` is the paper's count of weighted layers; `spec` the numbers that the net was built from;
    `layouts` are other code bases' names for its weights; `feature_info` says what `features` gives.
    """

    def __init__(
        self,
        stem: nn.Module,
        stages: Sequence[Stage],
        head: nn.Module,
        *,
        spec: Any,
        depth: int,
        layouts: tuple[Layout, ...] = (),
    ) -> None:
        super().__init__()
        self.spec = spec
        self.depth = depth
        self.layouts = layouts
        self.origin: Any = None
        self.stem = stem
        self.stages = nn.Sequential(*(nn.Sequential(*stage.blocks) for stage in stages))
        self.head = head
        self.feature_info = tuple(
            FeatureInfo(name=f"stages.{i}", channels=s.channels, reduction=s.reduction)
            for i, s in enumerate(stages)
        )

    def features(self, x: Tensor) -> dict[str, Tensor]:
        """The output of each stage by name, as `feature_info` announces: a backbone's maps."""
        x = self.stem(x)
        maps = OrderedDict[str, Tensor]()
        for info, stage in zip(self.feature_info, self.stages, strict=True):
            maps[info.name] = x = stage(x)
        return maps

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch of images."""
        return self.head(self.stages(self.stem(x)))

    def extra_repr(self) -> str:
        """What an architecture listing must not leave open."""
        shown = ("shortcut", "order", "stride_on")
        parts = [f"{n}={getattr(self.spec, n)}" for n in shown if hasattr(self.spec, n)]
        return ", ".join([f"depth={self.depth}", *parts])


def build_head(features: int, num_classes: int) -> nn.Sequential:
    """Global average pooling and a linear classifier."""
    return nn.Sequential(
        OrderedDict(
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            classifier=nn.Linear(features, num_classes),
        )
    )


def linear_rule(last: float, blocks: int) -> list[float]:
    """Drop rates that rise linearly to `last` (stochastic depth, arXiv 1603.09382).

    >>> linear_rule(0.5, 2)
    [0.25, 0.5]
    """
    return [last * number / blocks for number in range(1, blocks + 1)]


def count_depth(model: nn.Module) -> int:
    """Convolutions and linear layers outside shortcuts and gates: the papers' depth, on the net."""
    aside: set[int] = set()
    for block in model.modules():
        if isinstance(block, ResidualBlock):
            sides = (*block.shortcut.modules(), *block.merge.modules())
            aside |= {id(module) for module in sides}
    weighted = (m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear))
    return sum(id(m) not in aside for m in weighted)
