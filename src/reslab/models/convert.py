"""Checkpoint keys of other code bases and ours, both ways, as tables.

Their words never become attribute names here. A layout is a list of (our pattern, their pattern)
pairs; what a layout leaves unmatched is reported by `weights.py`, never dropped.
"""

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor

from reslab.errors import UnknownNameError, WeightsError
from reslab.registry import close_names

__all__ = [
    "RESNET_LAYOUTS",
    "Layout",
    "find_layout",
    "layout_named",
    "strip_prefixes",
    "timm_resnet_layout",
]

_PREFIXES = ("module.", "_orig_mod.")


@dataclass(frozen=True)
class Layout:
    """One code base's key names: pairs of (our module path, theirs), `{}` standing for a number.

    The first number counts from `first` there and from 0 here; names without one stand as they are.
    `mean` and `std` are the input statistics (of x / 255) that its published weights expect, where
    it publishes any.
    """

    name: str
    pairs: tuple[tuple[str, str], ...]
    first: int = 1
    mean: tuple[float, ...] | None = (0.485, 0.456, 0.406)
    std: tuple[float, ...] | None = (0.229, 0.224, 0.225)

    def translate(self, state: Mapping[str, Tensor], *, to_ours: bool) -> dict[str, Tensor]:
        """The same tensors under the other names; keys that the table lacks keep theirs."""
        return {self._rename(key, to_ours): tensor for key, tensor in state.items()}

    def _rename(self, key: str, to_ours: bool) -> str:
        stem, _, leaf = key.rpartition(".")
        for ours, theirs in self.pairs:
            source, target = (theirs, ours) if to_ours else (ours, theirs)
            if source == stem:  # no numbers: nets with hundreds of such pairs stay fast
                return f"{target}.{leaf}"
            if "{" not in source:
                continue
            match = _pattern(source).fullmatch(stem)
            if match:
                numbers = [int(n) for n in match.groups()]
                numbers[0] += -self.first if to_ours else self.first
                return f"{target.format(*numbers)}.{leaf}"
        return key


@functools.cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(re.escape(source).replace(r"\{\}", r"(\d+)"))


def _pairs(shortcut: str, classifier: str) -> tuple[tuple[str, str], ...]:
    inner = [
        (f"stages.{{}}.{{}}.branch.{ours}{n}", f"layer{{}}.{{}}.{theirs}{n}")
        for ours, theirs in (("conv", "conv"), ("norm", "bn"))
        for n in (1, 2, 3)
    ]
    return (
        ("stem.conv", "conv1"),
        ("stem.norm", "bn1"),
        *inner,
        ("stages.{}.{}.shortcut.conv", f"layer{{}}.{{}}.{shortcut}.0"),
        ("stages.{}.{}.shortcut.norm", f"layer{{}}.{{}}.{shortcut}.1"),
        ("head.classifier", classifier),
    )


RESNET_LAYOUTS = (
    Layout("torchvision", _pairs("downsample", "fc")),
    Layout("pytorch_resnet_cifar10", _pairs("shortcut", "linear")),
)


def timm_resnet_layout(*, deep_stem: bool, shortcut_pool: bool) -> Layout:
    """timm's names: torchvision's, but for a deep stem (ResNet-C), pooled shortcuts (-D) and SE.

    timm numbers what stands in a sequence, hence the same tensor has another name in each variant.
    """
    pairs = dict(_pairs("downsample", "fc"))
    for number, ours in ((1, "reduce"), (2, "expand")):
        pairs[f"stages.{{}}.{{}}.branch.squeeze.{ours}"] = f"layer{{}}.{{}}.se.fc{number}"
    if deep_stem:
        pairs |= {"stem.conv": "conv1.0", "stem.norm": "conv1.1"}
        pairs |= {"stem.conv2": "conv1.3", "stem.norm2": "conv1.4"}
        pairs |= {"stem.conv3": "conv1.6", "stem.norm3": "bn1"}
    if shortcut_pool:
        for ours, number in (("conv", 1), ("norm", 2)):
            theirs = f"layer{{}}.{{}}.downsample.{number}"
            del pairs[f"stages.{{}}.{{}}.shortcut.{ours}"]
            # The first stage does not stride: there is nothing to pool, though timm counts it.
            pairs[f"stages.0.0.shortcut.{ours}"] = theirs.format(1, 0)
            pairs[f"stages.{{}}.{{}}.shortcut.widen.{ours}"] = theirs
    return Layout("timm", tuple(pairs.items()))


def layout_named(name: str, layouts: Iterable[Layout]) -> Layout:
    """The layout of that name; UnknownNameError names the nearest."""
    known = {layout.name: layout for layout in layouts}
    if name not in known:
        raise UnknownNameError(
            f"unknown weights layout {name!r}", hint=close_names(name, [*known, "reslab"])
        )
    return known[name]


def find_layout(
    state: Mapping[str, Tensor], wanted: Collection[str], layouts: Iterable[Layout]
) -> Layout | None:
    """The layout under which most of `state` is wanted; None when our own names do at least as well."""
    best, most = None, len(state.keys() & set(wanted))
    for layout in layouts:
        fitting = len(layout.translate(state, to_ours=True).keys() & set(wanted))
        if fitting > most:
            best, most = layout, fitting
    return best


def strip_prefixes(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Keys without `module.` and `_orig_mod.` in front or inside, and the prefixes found.

    >>> strip_prefixes({"_orig_mod.module.fc.bias": 1})
    ({'fc.bias': 1}, ('_orig_mod.', 'module.'))
    """
    found: list[str] = []
    stripped: dict[str, Tensor] = {}
    for key, tensor in state.items():
        parts = key.split(".")
        wrappers = [f"{part}." for part in parts if f"{part}." in _PREFIXES]
        found.extend(wrapper for wrapper in wrappers if wrapper not in found)
        new = ".".join(part for part in parts if f"{part}." not in _PREFIXES)
        if new in stripped:
            raise WeightsError(f"two tensors are both called {new!r} once prefixes are stripped")
        stripped[new] = tensor
    return stripped, tuple(found)
