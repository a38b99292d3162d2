"""The ImageNet family of He 2015, table 1, with its grouped and wide relatives.

Projections where shapes change (option B) and, as in torchvision, the stride of a bottleneck on its
3x3 convolution; `stride_on="1x1"` gives the 2015 original. ResNeXt: arXiv 1611.05431; Wide ResNet:
arXiv 1605.07146.
"""

from typing import Any

from reslab.errors import ModelError
from reslab.models.resnet import ResNet, ResNetSpec

__all__ = ["build_imagenet_resnet"]

_TABLE_1 = {
    18: ("basic", (2, 2, 2, 2)),
    34: ("basic", (3, 4, 6, 3)),
    50: ("bottleneck", (3, 4, 6, 3)),
    101: ("bottleneck", (3, 4, 23, 3)),
    152: ("bottleneck", (3, 8, 36, 3)),
}


def build_imagenet_resnet(*, depth: int, **options: Any) -> ResNet:
    """A net of table 1; `options` are those of ResNetSpec. ModelError names the nearest depths."""
    if depth not in _TABLE_1:
        nearest = sorted(_TABLE_1, key=lambda legal: abs(legal - depth))[:2]
        raise ModelError(
            f"no ImageNet net has {depth} layers",
            expected=f"one of {sorted(_TABLE_1)}",
            hint=f"Nearest: {nearest[0]} or {nearest[1]}.",
        )
    block, depths = _TABLE_1[depth]
    spec = ResNetSpec(block=block, depths=depths, widths=(64, 128, 256, 512), **options)
    return ResNet(spec)
