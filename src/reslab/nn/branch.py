"""The residual functions F(x): basic, bottleneck, inverted bottleneck, dense layer."""

from collections import OrderedDict

from torch import nn

__all__ = ["basic_branch", "bottleneck_branch", "dense_branch", "inverted_branch"]


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


def inverted_branch(
    in_channels: int, out_channels: int, *, stride: int = 1, expansion: int = 6
) -> nn.Sequential:
    """1x1 expand - depthwise 3x3 - linear 1x1 project (Sandler 2018, arXiv 1801.04381, table 1).

    Between the first two and the last stand norm and ReLU6; nothing follows the last norm, because
    a ReLU on few channels loses what they hold (section 3.2). `expansion=1` has no expansion layer.
    """
    inner = in_channels * expansion
    layers = OrderedDict[str, nn.Module]()
    if expansion != 1:
        layers["expand"] = nn.Conv2d(in_channels, inner, 1, bias=False)
        layers["norm1"] = nn.BatchNorm2d(inner)
        layers["act1"] = nn.ReLU6()
    layers["depthwise"] = nn.Conv2d(
        inner, inner, 3, stride=stride, padding=1, groups=inner, bias=False
    )
    layers["norm2"] = nn.BatchNorm2d(inner)
    layers["act2"] = nn.ReLU6()
    layers["project"] = nn.Conv2d(inner, out_channels, 1, bias=False)
    layers["norm3"] = nn.BatchNorm2d(out_channels)
    return nn.Sequential(layers)


def dense_branch(
    in_channels: int, growth: int, *, bottleneck: int = 4, dropout: float = 0.0
) -> nn.Sequential:
    """What a dense layer adds: norm - ReLU - 3x3 to `growth` channels (arXiv 1608.06993, sec. 3).

    Before it stand norm, ReLU and a 1x1 to bottleneck * growth channels (DenseNet-B); bottleneck 0
    leaves them out. `dropout` follows each convolution.
    """
    layers = OrderedDict[str, nn.Module]()
    widths = [bottleneck * growth, growth] if bottleneck else [growth]
    for number, width in enumerate(widths, start=1):
        kernel = 1 if number < len(widths) else 3
        layers[f"norm{number}"] = nn.BatchNorm2d(in_channels)
        layers[f"act{number}"] = nn.ReLU()
        layers[f"conv{number}"] = nn.Conv2d(
            in_channels, width, kernel, padding=kernel // 2, bias=False
        )
        if dropout:
            layers[f"drop{number}"] = nn.Dropout(dropout)
        in_channels = width
    return nn.Sequential(layers)
