"""What nets are made of, part by part, read off the nets themselves.

reslab models --compare resnet110 preresnet110 highway50
"""

from collections import Counter
from collections.abc import Iterable

import torch
from torch import nn

from reslab.models.catalog import create_model, resolve
from reslab.models.cost import measure_cost
from reslab.nn import ResidualBlock

__all__ = ["PARTS", "describe_parts"]

# What the block's formula is made of, in its order, around what precedes and follows the blocks.
_BLOCK_PARTS = ("before", "branch", "scale", "drop_path", "shortcut", "merge", "after")
PARTS = ("depth", "parameters", "MACs", "input", "stem", "blocks", *_BLOCK_PARTS, "head")
_LABELS: dict[type[nn.Module], str] = {
    nn.BatchNorm2d: "batch norm",
    nn.BatchNorm1d: "batch norm",
    nn.LayerNorm: "layer norm",
    nn.Linear: "linear",
    nn.MaxPool2d: "max pool",
    nn.AvgPool2d: "average pool",
    nn.AdaptiveAvgPool2d: "global pool",
}


def describe_parts(name: str) -> dict[str, str]:
    """The parts of a net by name, each as one line of text; the keys are `PARTS`.

    A part that differs between blocks is given with the number of blocks that have it.

    >>> parts = describe_parts("resnet20")
    >>> parts["shortcut"], parts["merge"], parts["after"]
    ('7 Identity, 2 PadShortcut', 'Add', 'ReLU')
    """
    family, _ = resolve(name)
    with torch.device("meta"):
        net = create_model(name)
    cost = measure_cost(net, family.input_shape, kind=family.kind)
    blocks = [m for m in net.modules() if isinstance(m, ResidualBlock)]
    inside = {id(m) for block in blocks for m in block.modules()}
    parts = {
        "depth": str(net.depth),
        "parameters": f"{cost.parameters:,}",
        "MACs": f"{cost.macs:,}",
        "input": f"{family.kind} {' x '.join(map(str, family.input_shape))}",
        "stem": _outside(net, inside, before=True),
        "blocks": _count(blocks, net),
        "head": _outside(net, inside, before=False),
    }
    for part in _BLOCK_PARTS:
        parts[part] = _tally(_signature(getattr(block, part)) for block in blocks)
    return {part: parts[part] for part in PARTS}


def _count(blocks: list[ResidualBlock], net: nn.Module) -> str:
    stages = getattr(net, "stages", None)
    if not blocks or not isinstance(stages, nn.Sequential):
        return str(len(blocks))
    owned = [sum(isinstance(m, ResidualBlock) for m in stage.modules()) for stage in stages]
    return f"{len(blocks)} ({' + '.join(map(str, owned))})"


def _tally(signatures: Iterable[str]) -> str:
    counts = Counter(signatures)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {signature or 'none'}" for signature, count in counts.most_common())


def _outside(net: nn.Module, inside: set[int], *, before: bool) -> str:
    """Layers in front of the first block, or behind the last."""
    leaves = [m for m in net.modules() if not list(m.children())]
    places = [i for i, m in enumerate(leaves) if id(m) in inside]
    if not places:
        return _chain(leaves) if before else ""
    return _chain(leaves[: places[0]] if before else leaves[places[-1] + 1 :])


def _signature(part: nn.Module) -> str:
    """A part in few words: its own name where it has one, else the chain of its layers."""
    if isinstance(part, nn.Identity):
        return "Identity" if type(part) is not nn.Identity else ""
    if isinstance(part, nn.Sequential):
        return _chain(m for m in part.modules() if not list(m.children()))
    children = [m for m in part.modules() if m is not part and not list(m.children())]
    return f"{_label(part)} ({_chain(children)})" if children else _label(part)


def _chain(modules: Iterable[nn.Module]) -> str:
    return " - ".join(_label(m) for m in modules if not isinstance(m, nn.Identity | nn.Flatten))


def _label(module: nn.Module) -> str:
    if isinstance(module, nn.Conv2d):
        kernel = "x".join(map(str, module.kernel_size))
        stride = f"/{module.stride[0]}" if module.stride[0] > 1 else ""
        groups = f" in {module.groups} groups" if module.groups > 1 else ""
        depthwise = module.groups == module.in_channels > 1
        return f"conv {kernel}{stride}{' depthwise' if depthwise else groups}"
    return _LABELS.get(type(module), type(module).__name__)
