"""Checkpoint keys of other code bases and ours, both ways, as tables.

Their words never become attribute names here. A layout is a list of (our pattern, their pattern)
pairs; what a layout leaves unmatched is reported by `weights.py`, never dropped.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor

from reslab.errors import UnknownNameError, WeightsError
from reslab.registry import close_names

__all__ = ["LAYOUTS", "Layout", "find_layout", "strip_prefixes", "translate"]

_PREFIXES = ("module.", "_orig_mod.")


@dataclass(frozen=True)
class Layout:
    """One code base's key names. `{}` stands for a number; stages count from 1 there, from 0 here.

    `mean` and `std` are the input statistics (of x / 255) that its published weights expect.
    """

    name: str
    pairs: tuple[tuple[str, str], ...]
    marker: str
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)


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


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("torchvision", _pairs("downsample", "fc"), marker="fc.weight"),
        Layout("pytorch_resnet_cifar10", _pairs("shortcut", "linear"), marker="linear.weight"),
    )
}


def layout_named(name: str) -> Layout:
    """The layout of that name; UnknownNameError names the nearest."""
    if name not in LAYOUTS:
        raise UnknownNameError(
            f"unknown weights layout {name!r}", hint=close_names(name, [*LAYOUTS, "reslab"])
        )
    return LAYOUTS[name]


def find_layout(keys: Iterable[str]) -> Layout | None:
    """The layout that these keys are of; None for ours."""
    keys = set(keys)
    if any(key.startswith(("stages.", "stem.", "head.")) for key in keys):
        return None
    by_marker = [layout for layout in LAYOUTS.values() if layout.marker in keys]
    if not by_marker and any(key.startswith("layer1.") for key in keys):
        return LAYOUTS["torchvision"]
    return by_marker[0] if by_marker else None


def translate(state: Mapping[str, Tensor], layout: Layout, *, to_ours: bool) -> dict[str, Tensor]:
    """The same tensors under the other names; keys that the table lacks keep theirs."""
    return {_rename(key, layout, to_ours): tensor for key, tensor in state.items()}


def _rename(key: str, layout: Layout, to_ours: bool) -> str:
    stem, _, leaf = key.rpartition(".")
    for ours, theirs in layout.pairs:
        source, target = (theirs, ours) if to_ours else (ours, theirs)
        match = re.fullmatch(re.escape(source).replace(r"\{\}", r"(\d+)"), stem)
        if match:
            numbers = [int(n) for n in match.groups()]
            if numbers:
                numbers[0] += -1 if to_ours else 1
            return f"{target.format(*numbers)}.{leaf}"
    return key


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
