"""ImageNet nets of He 2016 (arXiv 1603.05027, section 5): the depths of 2015 and 200, pre-activated.

Images [N, in_channels, H, W] to logits; four stages at 1/4 to 1/32 of the size. The activation of
the first unit comes after the max pooling, as in timm's resnetv2; `stride_on` says where a
bottleneck strides, "3x3" (timm) or "1x1" (as in 2015). Orders, shortcuts and other options are those
of preresnet.

    depth   18, 34 (basic)   50, 101, 152, 200 (bottleneck)

preresnet200 is the only one with a short name, because preresnet<depth> names CIFAR nets; the others
are imagenet_preresnet<depth>. Weights of timm's resnetv2_50, resnetv2_101 and resnetv2_152 fit.

    reslab train imagenet_preresnet50 --data path/to/folder
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from reslab.errors import ModelError
from reslab.models.convert import Layout
from reslab.models.convnet import ConvNet
from reslab.models.preact import PreResNetSpec, assemble

__all__ = ["TIMM", "TimmLayout", "build_imagenet_preresnet"]

# He 2016, table 5: top-1 error of a single 320 px crop, with scale augmentation.
FAMILY = {
    "build": "build_imagenet_preresnet",
    "spec": "PreResNetSpec",
    "fixed": ("depths", "widths", "stem_width", "block", "one_layer_skips"),
    "input_shape": (3, 224, 224),
    "source": "He 2016, table 5, 320 px",
    "numbered": {"imagenet_preresnet": {}},
    "smallest": {"depth": 18},
    "smallest_shape": (3, 64, 64),
    "nets": {
        "preresnet200": {
            "options": {"depth": 200},
            "depth": 200,
            "parameters": 64_666_152,
            "macs": 15_007_481_856,
            "paper_error": "20.7",
        },
    },
}

_DEPTHS = {
    18: ("basic", (2, 2, 2, 2)),
    34: ("basic", (3, 4, 6, 3)),
    50: ("bottleneck", (3, 4, 6, 3)),
    101: ("bottleneck", (3, 4, 23, 3)),
    152: ("bottleneck", (3, 8, 36, 3)),
    200: ("bottleneck", (3, 24, 36, 3)),
}


@dataclass(frozen=True)
class TimmLayout(Layout):
    """timm's names, where the classifier is a 1x1 convolution: [classes, features, 1, 1]."""

    def translate(self, state: Mapping[str, Tensor], *, to_ours: bool) -> dict[str, Tensor]:
        """The same tensors under the other names; the classifier's weight reshaped."""
        translated = super().translate(state, to_ours=to_ours)
        key = "head.classifier.weight" if to_ours else "head.fc.weight"
        if key in translated:
            weight = translated[key]
            translated[key] = weight.flatten(1) if to_ours else weight[:, :, None, None]
        return translated


# A unit that begins a stage has its first norm before both sides; timm calls all of them norm1.
TIMM = TimmLayout(
    "timm",
    (
        ("stages.{}.0.before.norm", "stages.{}.blocks.0.norm1"),
        ("stages.{}.{}.shortcut.conv", "stages.{}.blocks.{}.downsample.conv"),
        *(
            (f"stages.{{}}.{{}}.branch.{kind}{n}", f"stages.{{}}.blocks.{{}}.{kind}{n}")
            for kind in ("norm", "conv")
            for n in (1, 2, 3)
        ),
        ("head.norm", "norm"),
        ("head.classifier", "head.fc"),
    ),
    first=0,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
)


def build_imagenet_preresnet(
    *,
    depth: int,
    shape_change: str | None = "projection",
    num_classes: int = 1000,
    **options: Any,
) -> ConvNet:
    """An ImageNet net of that depth; `options` are those of PreResNetSpec.

    ModelError names the nearest depths.
    """
    if depth not in _DEPTHS:
        nearest = sorted(_DEPTHS, key=lambda legal: abs(legal - depth))[:2]
        raise ModelError(
            f"no ImageNet net has {depth} layers",
            expected=f"one of {sorted(_DEPTHS)}",
            hint=f"Nearest: {nearest[0]} or {nearest[1]}.",
        )
    block, depths = _DEPTHS[depth]
    spec = PreResNetSpec(
        depths=depths,
        widths=(64, 128, 256, 512),
        stem_width=64,
        block=block,
        shape_change=shape_change,
        num_classes=num_classes,
        **({"stem": "imagenet"} | options),
    )
    return assemble(spec, layouts=(TIMM,) if _is_timms(spec) else ())


def _is_timms(spec: PreResNetSpec) -> bool:
    """Whether timm has this net: its basic ones do not share the first activation."""
    theirs = ("bottleneck", "pre", "identity", "projection", "3x3", "imagenet")
    names = ("block", "order", "shortcut", "shape_change", "stride_on", "stem")
    return tuple(getattr(spec, name) for name in names) == theirs
