"""The CIFAR DenseNets of Huang 2017 (arXiv 1608.06993, table 2): dense stages at 32, 16 and 8 pixels.

    densenet<depth>_<growth>      DenseNet: n = (depth - 4) / 3 layers a stage, stem of 16 channels
    densenet_bc<depth>_<growth>   DenseNet-BC: n = (depth - 4) / 6 layers a stage, each with a 1x1 of
                                  4 * growth channels before its 3x3 (B), transitions that keep half
                                  the channels (C), stem of 2 * growth channels

The parameters printed in the paper stand beside ours. Without augmentation the paper adds
`dropout=0.2` after each convolution but the first.

    reslab train densenet_bc100_12 --data cifar10 --recipe paper
"""

from typing import Any

from reslab.errors import ModelError
from reslab.models.convnet import ConvNet
from reslab.models.densenet import DenseNetSpec, build_densenet

__all__ = ["build_cifar_densenet"]

# Errors: CIFAR-10 with augmentation (C10+).
FAMILY = {
    "build": "build_cifar_densenet",
    "spec": "DenseNetSpec",
    "fixed": ("depths", "stem", "bottleneck"),
    "input_shape": (3, 32, 32),
    "source": "Huang 2017, table 2, C10+",
    "smallest": {"depth": 16, "growth": 4, "bc": True},
    "smallest_shape": (3, 16, 16),
    "nets": {
        "densenet40_12": {
            "options": {"depth": 40, "growth": 12},
            "depth": 40,
            "parameters": 1_019_722,
            "macs": 264_812_928,
            "paper_parameters": "1.0M",
            "paper_error": "5.24",
        },
        "densenet100_12": {
            "options": {"depth": 100, "growth": 12},
            "depth": 100,
            "parameters": 6_979_642,
            "macs": 1_769_516_448,
        },
        "densenet100_24": {
            "options": {"depth": 100, "growth": 24},
            "depth": 100,
            "parameters": 27_249_082,
            "macs": 6_889_347_744,
            "paper_parameters": "27.2M",
            "paper_error": "3.74",
        },
        "densenet_bc100_12": {
            "options": {"depth": 100, "growth": 12, "bc": True},
            "depth": 100,
            "parameters": 769_162,
            "macs": 287_929_692,
            "paper_parameters": "0.8M",
            "paper_error": "4.51",
        },
        "densenet_bc250_24": {
            "options": {"depth": 250, "growth": 24, "bc": True},
            "depth": 250,
            "parameters": 15_324_406,
            "macs": 5_418_785_724,
            "paper_parameters": "15.3M",
            "paper_error": "3.62",
        },
        "densenet_bc190_40": {
            "options": {"depth": 190, "growth": 40, "bc": True},
            "depth": 190,
            "parameters": 25_624_430,
            "macs": 9_301_945_740,
            "paper_parameters": "25.6M",
            "paper_error": "3.46",
        },
    },
}


def build_cifar_densenet(
    *, depth: int, growth: int = 12, bc: bool = False, **options: Any
) -> ConvNet:
    """A CIFAR DenseNet, or DenseNet-BC with `bc`; `options` are those of DenseNetSpec.

    ModelError names the nearest legal depths.

    >>> build_cifar_densenet(depth=40).spec.depths
    (12, 12, 12)
    """
    if not isinstance(bc, bool):
        raise ModelError("bc is wrong", got=bc, expected="a boolean")
    layers = _stage_layers(depth, step=6 if bc else 3)
    defaults = {
        "stem_channels": 2 * growth if bc else 16,
        "compression": 0.5 if bc else 1.0,
        "num_classes": 10,
    }
    spec = DenseNetSpec(
        depths=(layers,) * 3,
        growth=growth,
        bottleneck=4 if bc else 0,
        stem="cifar",
        **(defaults | options),
    )
    return build_densenet(spec)


def _stage_layers(depth: int, *, step: int) -> int:
    layers, rest = divmod(depth - 4, step)
    if rest or layers < 1:
        below = max(layers, 1) * step + 4
        nearest = f"{below} or {below + step}" if depth > below else str(below)
        raise ModelError(
            f"no CIFAR {'DenseNet-BC' if step == 6 else 'DenseNet'} has {depth} layers",
            expected=f"{step}n + 4",
            hint=f"Nearest: {nearest}.",
        )
    return layers
