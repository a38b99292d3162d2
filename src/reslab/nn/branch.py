"""The residual functions F(x): two 3x3 convolutions, or a bottleneck of three."""

from collections import OrderedDict

from torch import nn

__all__ = ["basic_branch", "bottleneck_branch"]


def basic_branch(in_channels: int, out_channels: int, *, stride: int = 1) -> nn.Sequential:
    """conv 3x3 - norm - ReLU - conv 3x3 - norm (He 2015 fig. 5 left); the stride is on the first."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False),
            norm1=nn.BatchNorm2d(out_channels),
            act1=nn.ReLU(),
            conv2=nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            norm2=nn.BatchNorm2d(out_channels),
        )
    )


def bottleneck_branch(
    in_channels: int,
    inner_channels: int,
    out_channels: int,
    *,
    strides: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> nn.Sequential:
    """1x1 reduce - 3x3 - 1x1 restore, each with norm (He 2015 fig. 5 right).

    `strides` are those of the first 1x1 and of the 3x3: (2, 1) is the 2015 original, (1, 2) is
    torchvision's. `groups` splits the 3x3 (ResNeXt).
    """
    first, second = strides
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(in_channels, inner_channels, 1, stride=first, bias=False),
            norm1=nn.BatchNorm2d(inner_channels),
            act1=nn.ReLU(),
            conv2=nn.Conv2d(
                inner_channels,
                inner_channels,
                3,
                stride=second,
                padding=1,
                groups=groups,
                bias=False,
            ),
            norm2=nn.BatchNorm2d(inner_channels),
            act2=nn.ReLU(),
            conv3=nn.Conv2d(inner_channels, out_channels, 1, bias=False),
            norm3=nn.BatchNorm2d(out_channels),
        )
    )
