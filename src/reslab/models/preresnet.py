"""CIFAR nets of He 2016 (arXiv 1603.05027): every shortcut of table 1, every order of table 2.

Images [N, in_channels, H, W] to logits; three stages at full, half and quarter size, 16, 32 and 64
channels wide, four times as many after a bottleneck.

    basic       6n + 2 layers   110
    bottleneck  9n + 2 layers   164, 1001; its parameters are 1,703,258 and 10,327,706

    order       post, norm_after_add, relu_before_add, relu_only_pre, pre (see reslab.nn.order)
    shortcut    identity; constant (x times shortcut_scale); exclusive_gate (g F + (1 - g) x) and
                shortcut_gate (F + (1 - g) x), whose bias starts at gate_bias; conv1x1 on all blocks;
                dropout (shortcut_dropout); none, the plain net

Where a block changes the shape, `shape_change` says what replaces x: zero_pad (basic blocks) or
projection (bottlenecks), which reads the activated input in pre-activation nets (appendix).
Further options are `one_layer_skips` (table 3), `branch_scale` and those of the other families.

    reslab train preresnet110 --data cifar10 --recipe paper
    reslab train preresnet110 -m shortcut=shortcut_gate -m gate_bias=-6

preresnet<depth> is always a CIFAR net but for preresnet200, which is the ImageNet one.
"""

from typing import Any

from reslab.models.cifar_resnet import stage_depth
from reslab.models.convnet import ConvNet
from reslab.models.preact import PreResNetSpec, assemble

__all__ = ["PreResNetSpec", "build_preresnet"]

# He 2016, tables 3 and 4: printed parameters and CIFAR-10 test error.
FAMILY = {
    "build": "build_preresnet",
    "spec": "PreResNetSpec",
    "fixed": ("depths", "widths", "stem_width"),
    "input_shape": (3, 32, 32),
    "source": "He 2016, tables 3, 4",
    "numbered": {"preresnet": {}},
    "smallest": {"depth": 8},
    "smallest_shape": (3, 16, 16),
    "nets": {
        "preresnet110": {
            "options": {"depth": 110, "block": "basic"},
            "depth": 110,
            "parameters": 1_727_962,
            "macs": 252_887_680,
            "paper_error": "6.37",
            "source": "He 2016, table 3",
        },
        "preresnet164": {
            "options": {"depth": 164, "block": "bottleneck"},
            "depth": 164,
            "parameters": 1_703_258,
            "macs": 247_646_720,
            "paper_parameters": "1.7M",
            "paper_error": "5.46",
        },
        "preresnet1001": {
            "options": {"depth": 1001, "block": "bottleneck"},
            "depth": 1001,
            "parameters": 10_327_706,
            "macs": 1_490_995_712,
            "paper_parameters": "10.2M",
            "paper_error": "4.92",
        },
    },
}

_LAYERS = {"basic": 6, "bottleneck": 9}


def build_preresnet(*, depth: int, block: str | None = None, **options: Any) -> ConvNet:
    """A CIFAR net of a legal depth; `options` are those of PreResNetSpec.

    `block=None` takes the one kind of block that the depth allows; where it allows both, basic
    blocks below 164 layers and bottlenecks from there on, as in the paper. ModelError names the
    nearest legal depths.

    >>> build_preresnet(depth=20, order="post").depth
    20
    """
    if block is None:
        preferred = sorted(_LAYERS, reverse=depth >= 164)
        fitting = [kind for kind in preferred if depth > 2 and (depth - 2) % _LAYERS[kind] == 0]
        block = fitting[0] if fitting else "basic"
    blocks = stage_depth(depth, block=block)
    if options.get("one_layer_skips"):
        blocks *= 2
    spec = PreResNetSpec(
        depths=(blocks,) * 3, widths=(16, 32, 64), stem_width=16, block=block, **options
    )
    return assemble(spec)
