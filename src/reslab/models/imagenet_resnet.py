"""The ImageNet family of He 2015, table 1, with its grouped, wide, tweaked and gated relatives.

Projections where shapes change (option B) and, as in torchvision, the stride of a bottleneck on its
3x3 convolution; `stride_on="1x1"` gives the 2015 original.

    resnext*_CxWd   C groups (arXiv 1611.05431)
    wide_*_2        inner width doubled (arXiv 1605.07146)
    resnet*c        three 3x3 convolutions for a stem (ResNet-C, arXiv 1812.01187, fig. 2)
    resnet*d        ResNet-C with average pooling on shortcuts that stride (ResNet-D)
    se*             squeeze-and-excitation at the end of each branch (arXiv 1709.01507)

ResNet-B of arXiv 1812.01187 is what resnet50 and its like are here. A stem of three convolutions
counts as three: resnet50d has depth 52.
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
        "resnext101_64x4d": {
            "options": {"depth": 101, "groups": 64, "width_factor": 4},
            "depth": 101,
            "parameters": 83_455_272,
            "macs": 15_460_270_080,
            "paper_error": "20.4",
            "source": "Xie 2017, 1 crop",
        },
        "resnet50c": {
            "options": {"depth": 50, "stem": "deep"},
            "depth": 52,
            "parameters": 25_576_264,
            "macs": 4_328_824_832,
            "source": "He 2018",
        },
        "resnet18d": {
            "options": {"depth": 18, "stem": "deep", "shortcut_pool": True},
            "depth": 20,
            "parameters": 11_708_744,
            "macs": 2_053_713_920,
            "source": "timm",
        },
        "resnet34d": {
            "options": {"depth": 34, "stem": "deep", "shortcut_pool": True},
            "depth": 36,
            "parameters": 21_816_904,
            "macs": 3_903_401_984,
            "source": "timm",
        },
        "resnet50d": {
            "options": {"depth": 50, "stem": "deep", "shortcut_pool": True},
            "depth": 52,
            "parameters": 25_576_264,
            "macs": 4_328_824_832,
            "source": "He 2018",
        },
        "resnet101d": {
            "options": {"depth": 101, "stem": "deep", "shortcut_pool": True},
            "depth": 103,
            "parameters": 44_568_392,
            "macs": 8_041_046_016,
            "source": "timm",
        },
        "resnet152d": {
            "options": {"depth": 152, "stem": "deep", "shortcut_pool": True},
            "depth": 154,
            "parameters": 60_212_040,
            "macs": 11_753_267_200,
            "source": "timm",
        },
        "seresnet50": {
            "options": {"depth": 50, "squeeze": 16},
            "depth": 50,
            "parameters": 28_088_024,
            "macs": 4_091_699_200,
            "paper_error": "22.37",
            "source": "Hu 2018, authors' repository, 1 crop",
        },
        "seresnet101": {
            "options": {"depth": 101, "squeeze": 16},
            "depth": 101,
            "parameters": 49_326_872,
            "macs": 7_806_148_608,
            "paper_error": "21.75",
            "source": "Hu 2018, authors' repository, 1 crop",
        },
        "seresnet152": {
            "options": {"depth": 152, "squeeze": 16},
            "depth": 152,
            "parameters": 66_821_848,
            "macs": 11_520_204_800,
            "paper_error": "21.34",
            "source": "Hu 2018, authors' repository, 1 crop",
        },
        "seresnext50_32x4d": {
            "options": {"depth": 50, "groups": 32, "width_factor": 2, "squeeze": 16},
            "depth": 50,
            "parameters": 27_559_896,
            "macs": 4_232_994_816,
            "paper_error": "20.97",
            "source": "Hu 2018, authors' repository, 1 crop",
        },
        "seresnext101_32x4d": {
            "options": {"depth": 101, "groups": 32, "width_factor": 2, "squeeze": 16},
            "depth": 101,
            "parameters": 48_955_416,
            "macs": 7_974_739_968,
            "paper_error": "19.81",
            "source": "Hu 2018, authors' repository, 1 crop",
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
