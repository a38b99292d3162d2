"""The ImageNet family of He 2015, table 1, with its grouped and wide relatives.

Projections where shapes change (option B) and, as in torchvision, the stride of a bottleneck on its
3x3 convolution; `stride_on="1x1"` gives the 2015 original. ResNeXt: arXiv 1611.05431; Wide ResNet:
arXiv 1605.07146.
"""

from typing import Any

from reslab.errors import ModelError
from reslab.models.convnet import ConvNet
from reslab.models.resnet import ResNetSpec, build_resnet

__all__ = ["build_imagenet_resnet"]

FAMILY = {
    "build": "build_imagenet_resnet",
    "spec": "ResNetSpec",
    "fixed": ("depths", "widths", "block"),
    "input_shape": (3, 224, 224),
    "smallest": {"depth": 18},
    "smallest_shape": (3, 64, 64),
    "nets": {
        "plain18": {
            "options": {"depth": 18, "shortcut": "none"},
            "depth": 18,
            "parameters": 11_515_688,
            "macs": 1_794_805_760,
            "paper_macs": "1.8G",
            "paper_error": "27.94",
            "source": "He 2015, tables 1, 2",
        },
        "plain34": {
            "options": {"depth": 34, "shortcut": "none"},
            "depth": 34,
            "parameters": 21_623_848,
            "macs": 3_644_493_824,
            "paper_macs": "3.6G",
            "paper_error": "28.54",
            "source": "He 2015, tables 1, 2",
        },
        "resnet18": {
            "options": {"depth": 18},
            "depth": 18,
            "parameters": 11_689_512,
            "macs": 1_814_073_344,
            "paper_macs": "1.8G",
            "source": "He 2015, table 1",
        },
        "resnet34": {
            "options": {"depth": 34},
            "depth": 34,
            "parameters": 21_797_672,
            "macs": 3_663_761_408,
            "paper_macs": "3.6G",
            "paper_error": "24.52",
            "source": "He 2015, tables 1, 3",
        },
        "resnet50": {
            "options": {"depth": 50},
            "depth": 50,
            "parameters": 25_557_032,
            "macs": 4_089_184_256,
            "paper_macs": "3.8G",
            "paper_error": "22.85",
            "source": "He 2015, tables 1, 3",
        },
        "resnet101": {
            "options": {"depth": 101},
            "depth": 101,
            "parameters": 44_549_160,
            "macs": 7_801_405_440,
            "paper_macs": "7.6G",
            "paper_error": "21.75",
            "source": "He 2015, tables 1, 3",
        },
        "resnet152": {
            "options": {"depth": 152},
            "depth": 152,
            "parameters": 60_192_808,
            "macs": 11_513_626_624,
            "paper_macs": "11.3G",
            "paper_error": "21.43",
            "source": "He 2015, tables 1, 3",
        },
        "resnext50_32x4d": {
            "options": {"depth": 50, "groups": 32, "width_factor": 2},
            "depth": 50,
            "parameters": 25_028_904,
            "macs": 4_230_479_872,
            "paper_error": "22.2",
            "source": "Xie 2017, 1 crop",
        },
        "resnext101_32x8d": {
            "options": {"depth": 101, "groups": 32, "width_factor": 4},
            "depth": 101,
            "parameters": 88_791_336,
            "macs": 16_414_015_488,
            "source": "torchvision",
        },
        "wide_resnet50_2": {
            "options": {"depth": 50, "width_factor": 2},
            "depth": 50,
            "parameters": 68_883_240,
            "macs": 11_398_021_120,
            "paper_error": "21.9",
            "source": "Zagoruyko 2016, 1 crop",
        },
        "wide_resnet101_2": {
            "options": {"depth": 101, "width_factor": 2},
            "depth": 101,
            "parameters": 126_886_696,
            "macs": 22_753_050_624,
            "source": "torchvision",
        },
    },
}

_TABLE_1 = {
    18: ("basic", (2, 2, 2, 2)),
    34: ("basic", (3, 4, 6, 3)),
    50: ("bottleneck", (3, 4, 6, 3)),
    101: ("bottleneck", (3, 4, 23, 3)),
    152: ("bottleneck", (3, 8, 36, 3)),
}


def build_imagenet_resnet(*, depth: int, **options: Any) -> ConvNet:
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
    return build_resnet(spec)
