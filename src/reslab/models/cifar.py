"""The CIFAR family of He 2015, section 4.2: three stages of n blocks at 32, 16 and 8 pixels.

    basic       6n + 2 layers   20, 32, 44, 56, 110, 1202 (n = 3, 5, 7, 9, 18, 200)
    bottleneck  9n + 2 layers   164 (n = 18), from He 2016

Option A (zero-padding) shortcuts everywhere, so that plain and residual nets have exactly the same
parameters; bottleneck nets need projections (He 2016, appendix).

    reslab train resnet56 --data cifar10 --recipe paper
"""

from typing import Any

from reslab.errors import ModelError
from reslab.models.resnet import ResNet, ResNetSpec

__all__ = ["build_cifar_resnet", "stage_depth"]

_LAYERS = {"basic": 6, "bottleneck": 9}


def stage_depth(depth: int, *, block: str = "basic") -> int:
    """Blocks per stage of a net with `depth` layers; ModelError names the nearest legal depths.

    >>> stage_depth(56), stage_depth(164, block="bottleneck")
    (9, 18)
    >>> stage_depth(57)
    Traceback (most recent call last):
        ...
    reslab.errors.ModelError: no basic CIFAR net has 57 layers: expected 6n + 2. Nearest: 56 or 62.
    """
    if block not in _LAYERS:
        raise ModelError("unknown block", got=block, expected="basic or bottleneck")
    layers = _LAYERS[block]
    blocks, rest = divmod(depth - 2, layers)
    if rest or blocks < 1:
        below = max(blocks, 1) * layers + 2
        nearest = f"{below} or {below + layers}" if depth > below else str(below)
        raise ModelError(
            f"no {block} CIFAR net has {depth} layers",
            expected=f"{layers}n + 2",
            hint=f"Nearest: {nearest}.",
        )
    return blocks


def build_cifar_resnet(*, depth: int, block: str = "basic", **options: Any) -> ResNet:
    """A CIFAR net of a legal depth; `options` are those of ResNetSpec."""
    blocks = stage_depth(depth, block=block)
    defaults = {
        "shortcut": "zero_pad" if block == "basic" else "projection",
        "stem": "cifar",
        "num_classes": 10,
    }
    spec = ResNetSpec(
        depths=(blocks,) * 3, widths=(16, 32, 64), block=block, **(defaults | options)
    )
    return ResNet(spec)
