"""The CIFAR family of He 2015, section 4.2: three stages of n blocks at 32, 16 and 8 pixels.

    basic       6n + 2 layers   20, 32, 44, 56, 110, 1202 (n = 3, 5, 7, 9, 18, 200)
    bottleneck  9n + 2 layers   164 (n = 18), from He 2016

Option A (zero-padding) shortcuts everywhere, so that plain and residual nets have exactly the same
parameters; bottleneck nets need projections (He 2016, appendix).

    reslab train resnet56 --data cifar10 --recipe paper
"""

from typing import Any

from reslab.errors import ModelError
from reslab.models.convnet import ConvNet
from reslab.models.resnet import ResNetSpec, build_resnet

__all__ = ["build_cifar_resnet", "cifar_model", "stage_depth"]

_LAYERS = {"basic": 6, "bottleneck": 9}
# These depths mean ImageNet nets when they are part of a name.
_TAKEN = (18, 34, 50, 101, 152)

# He 2015, table 6: printed parameters and test error; the plain nets are those of figure 6.
FAMILY = {
    "build": "build_cifar_resnet",
    "spec": "ResNetSpec",
    "fixed": ("depths", "widths"),
    "input_shape": (3, 32, 32),
    "source": "He 2015, table 6",
    "numbered": {"resnet": {"block": None}, "plain": {"block": None, "shortcut": "none"}},
    "smallest": {"depth": 8},
    "smallest_shape": (3, 16, 16),
    "nets": {
        "plain20": {
            "options": {"depth": 20, "shortcut": "none"},
            "depth": 20,
            "parameters": 269_722,
            "macs": 40_551_040,
            "paper_parameters": "0.27M",
            "source": "He 2015, fig. 6",
        },
        "resnet20": {
            "options": {"depth": 20},
            "depth": 20,
            "parameters": 269_722,
            "macs": 40_551_040,
            "paper_parameters": "0.27M",
            "paper_error": "8.75",
        },
        "plain32": {
            "options": {"depth": 32, "shortcut": "none"},
            "depth": 32,
            "parameters": 464_154,
            "macs": 68_862_592,
            "paper_parameters": "0.46M",
            "source": "He 2015, fig. 6",
        },
        "resnet32": {
            "options": {"depth": 32},
            "depth": 32,
            "parameters": 464_154,
            "macs": 68_862_592,
            "paper_parameters": "0.46M",
            "paper_error": "7.51",
        },
        "plain44": {
            "options": {"depth": 44, "shortcut": "none"},
            "depth": 44,
            "parameters": 658_586,
            "macs": 97_174_144,
            "paper_parameters": "0.66M",
            "source": "He 2015, fig. 6",
        },
        "resnet44": {
            "options": {"depth": 44},
            "depth": 44,
            "parameters": 658_586,
            "macs": 97_174_144,
            "paper_parameters": "0.66M",
            "paper_error": "7.17",
        },
        "plain56": {
            "options": {"depth": 56, "shortcut": "none"},
            "depth": 56,
            "parameters": 853_018,
            "macs": 125_485_696,
            "paper_parameters": "0.85M",
            "source": "He 2015, fig. 6",
        },
        "resnet56": {
            "options": {"depth": 56},
            "depth": 56,
            "parameters": 853_018,
            "macs": 125_485_696,
            "paper_parameters": "0.85M",
            "paper_error": "6.97",
        },
        "plain110": {
            "options": {"depth": 110, "shortcut": "none"},
            "depth": 110,
            "parameters": 1_727_962,
            "macs": 252_887_680,
            "paper_parameters": "1.7M",
            "paper_error": "> 60",
            "source": "He 2015, fig. 6",
        },
        "resnet110": {
            "options": {"depth": 110},
            "depth": 110,
            "parameters": 1_727_962,
            "macs": 252_887_680,
            "paper_parameters": "1.7M",
            "paper_error": "6.43",
        },
        "resnet1202": {
            "options": {"depth": 1202},
            "depth": 1202,
            "parameters": 19_421_274,
            "macs": 2_829_238_912,
            "paper_parameters": "19.4M",
            "paper_error": "7.93",
        },
    },
}


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


def build_cifar_resnet(*, depth: int, block: str | None = "basic", **options: Any) -> ConvNet:
    """A CIFAR net of a legal depth; `options` are those of ResNetSpec.

    `block=None` takes basic blocks where the depth allows it, else bottlenecks.
    """
    if block is None:
        block = _block_for(depth)
    blocks = stage_depth(depth, block=block)
    defaults = {
        "shortcut": "zero_pad" if block == "basic" else "projection",
        "stem": "cifar",
        "num_classes": 10,
    }
    spec = ResNetSpec(
        depths=(blocks,) * 3, widths=(16, 32, 64), block=block, **(defaults | options)
    )
    return build_resnet(spec)


def _block_for(depth: int) -> str:
    """The block of a net that is named by its depth; ModelError names the nearest free names."""
    for block, layers in _LAYERS.items():
        if depth > 2 and (depth - 2) % layers == 0:
            return block
    legal = [
        d
        for d in range(8, depth + 10)
        if ((d - 2) % 6 == 0 or (d - 2) % 9 == 0) and d not in _TAKEN
    ]
    nearest = sorted(sorted(legal, key=lambda d: abs(d - depth))[:3])
    raise ModelError(
        "no net has this depth",
        got=depth,
        expected="6n + 2 (basic) or 9n + 2 (bottleneck) for CIFAR; 18, 34, 50, 101, 152 for ImageNet",
        hint=f"Nearest: {', '.join(map(str, nearest))}.",
    )


def cifar_model(kind: str, depth: int) -> tuple[str, dict[str, Any]]:
    """Name and options of the plain or residual ("resnet") CIFAR net of a depth.

    >>> cifar_model("plain", 56), cifar_model("resnet", 50)
    (('plain56', {}), ('cifar_resnet', {'depth': 50, 'shortcut': 'zero_pad'}))
    """
    # resnet50 and resnet152 are ImageNet nets, though 50 and 152 are legal CIFAR depths too.
    if depth in _TAKEN:
        shortcut = "none" if kind == "plain" else "zero_pad"
        return "cifar_resnet", {"depth": depth, "shortcut": shortcut}
    return f"{kind}{depth}", {}
