"""Wide ResNets for CIFAR (arXiv 1605.07146): pre-activation nets, k times wider and less deep.

Images [N, in_channels, H, W] to logits; a stem of 16 channels, then three stages of basic blocks
with 16k, 32k and 64k channels at full, half and quarter size, projections where shapes change.

WRN-d-k has d = 6n + 4: the paper counts convolutions, the three projections among them. He 2015
counts the classifier and no projection, and so does `net.depth`: 6n + 2. WRN-28-10 has 36,479,194
parameters for ten classes. The paper's best nets train with dropout=0.3.

    reslab train wrn16_8 --data cifar10 -m dropout=0.3
"""

from typing import Any

from reslab.errors import ModelError
from reslab.models.convnet import ConvNet
from reslab.models.preact import PreResNetSpec, assemble

__all__ = ["build_wide_resnet"]

# The errors on CIFAR-10 are those of the authors' repository, median of 5, without dropout.
FAMILY = {
    "build": "build_wide_resnet",
    "spec": "PreResNetSpec",
    "fixed": ("depths", "widths", "stem_width", "block", "stem", "stride_on", "one_layer_skips"),
    "input_shape": (3, 32, 32),
    "source": "Zagoruyko 2016",
    "smallest": {"depth": 10, "width_factor": 2},
    "smallest_shape": (3, 16, 16),
    "nets": {
        "wrn16_8": {
            "options": {"depth": 16, "width_factor": 8},
            "depth": 14,
            "parameters": 10_961_370,
            "macs": 1_548_145_664,
        },
        "wrn28_10": {
            "options": {"depth": 28, "width_factor": 10},
            "depth": 26,
            "parameters": 36_479_194,
            "macs": 5_243_328_768,
            "paper_parameters": "36.5M",
            "paper_error": "4.00",
        },
        "wrn40_4": {
            "options": {"depth": 40, "width_factor": 4},
            "depth": 38,
            "parameters": 8_949_210,
            "macs": 1_298_582_016,
        },
    },
}


def build_wide_resnet(*, depth: int, width_factor: int, **options: Any) -> ConvNet:
    """WRN-depth-width_factor; `options` are those of PreResNetSpec.

    ModelError names the nearest legal depths.

    >>> build_wide_resnet(depth=10, width_factor=1).stages[2][0].branch.conv1.out_channels
    64
    """
    blocks, rest = divmod(depth - 4, 6)
    if rest or blocks < 1:
        below = max(blocks, 1) * 6 + 4
        nearest = f"{below} or {below + 6}" if depth > below else str(below)
        raise ModelError(
            f"no Wide ResNet has {depth} layers", expected="6n + 4", hint=f"Nearest: {nearest}."
        )
    if not isinstance(width_factor, int) or width_factor < 1:
        raise ModelError(
            "width_factor is wrong", got=width_factor, expected="a whole number from 1"
        )
    spec = PreResNetSpec(
        depths=(blocks,) * 3,
        widths=(16 * width_factor, 32 * width_factor, 64 * width_factor),
        stem_width=16,
        **({"shape_change": "projection"} | options),
    )
    return assemble(spec)
