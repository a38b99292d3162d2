"""ResNeXt-29 for CIFAR (Xie 2017, arXiv 1611.05431, section 5.3): grouped bottlenecks.

Three stages of n blocks at 32, 16 and 8 pixels, 9n + 2 layers. A block of stage 0, written C x d, is

    1x1 to C * d channels - 3x3 in C groups - 1x1 to 256 channels

and each stage doubles both widths. `groups` is C; `width_factor` is C * d / 64, the inner width over
that of a ResNet's bottleneck: 8 for 8x64d, 16 for 16x64d. The parameters printed in the paper stand
beside ours.

    reslab train resnext29_8x64d --data cifar10 --recipe paper
"""

from typing import Any

from reslab.models.cifar_resnet import stage_depth
from reslab.models.convnet import ConvNet
from reslab.models.resnet import ResNetSpec, build_resnet

__all__ = ["build_cifar_resnext"]

# Errors: CIFAR-10, mean of 10 runs (table 7).
FAMILY = {
    "build": "build_cifar_resnext",
    "spec": "ResNetSpec",
    "fixed": ("depths", "widths", "block"),
    "input_shape": (3, 32, 32),
    "source": "Xie 2017, CIFAR-10, 10 runs",
    "smallest": {"depth": 11, "groups": 4, "width_factor": 1},
    "smallest_shape": (3, 16, 16),
    "nets": {
        "resnext29_8x64d": {
            "options": {"groups": 8, "width_factor": 8},
            "depth": 29,
            "parameters": 34_426_698,
            "macs": 5_387_266_048,
            "paper_parameters": "34.4M",
            "paper_error": "3.65",
        },
        "resnext29_16x64d": {
            "options": {"groups": 16, "width_factor": 16},
            "depth": 29,
            "parameters": 68_155_210,
            "macs": 10_688_866_304,
            "paper_parameters": "68.1M",
            "paper_error": "3.58",
        },
    },
}


def build_cifar_resnext(*, depth: int = 29, **options: Any) -> ConvNet:
    """A CIFAR ResNeXt of 9n + 2 layers, 8x64d unless told; `options` are those of ResNetSpec.

    ModelError names the nearest legal depths.
    """
    blocks = stage_depth(depth, block="bottleneck")
    defaults: dict[str, Any] = {"groups": 8, "width_factor": 8, "stem": "cifar", "num_classes": 10}
    spec = ResNetSpec(
        depths=(blocks,) * 3, widths=(64, 128, 256), block="bottleneck", **(defaults | options)
    )
    return build_resnet(spec)
