"""Gates looked at and shut from outside, in any net that holds a `GatedMerge`.

What Srivastava 2015 (arXiv 1505.00387, fig. 2; 1507.06228, fig. 4) measure: how far each transform
gate is open for a sample, and what happens when one layer copies its input.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from reslab.errors import ModelError
from reslab.nn.merge import GatedMerge
from reslab.registry import close_names

__all__ = ["closed_gates", "find_gates", "gate_activations"]


def find_gates(net: nn.Module) -> dict[str, GatedMerge]:
    """Every gated merge of the net by the path of the block that holds it, in the net's order.

    >>> from reslab.nn import ResidualBlock
    >>> gated = GatedMerge(nn.Linear(4, 4))
    >>> list(find_gates(nn.Sequential(nn.ReLU(), ResidualBlock(nn.Tanh(), nn.Identity(), merge=gated))))
    ['1']
    """
    return {
        path.removesuffix(".merge"): module
        for path, module in net.named_modules()
        if isinstance(module, GatedMerge)
    }


def gate_activations(net: nn.Module, *inputs: Tensor) -> dict[str, Tensor]:
    """T(x), the transform gate, of every gated block for these inputs, in the order of `find_gates`.

    Each has the shape that the gate gives ([N, width], [N, C, H, W]); a block that the net calls
    several times, such as a recurrent one, has its calls along a new first dimension, [T, N, width].
    Blocks that the forward leaves out are missing. Computed in evaluation mode without gradients;
    modes and hooks are put back as they were. Raises ModelError where there is no gate.
    """
    gates = find_gates(net)
    if not gates:
        raise ModelError(
            "this net has no gates", got=type(net).__name__, expected="a GatedMerge in some block"
        )
    seen: dict[str, list[Tensor]] = OrderedDict((name, []) for name in gates)
    with contextlib.ExitStack() as stack:
        for name, merge in gates.items():
            stack.enter_context(_captured(merge.sigmoid, seen[name]))
        stack.enter_context(_evaluating(net))
        with torch.no_grad():
            net(*inputs)
    return {
        name: calls[0] if len(calls) == 1 else torch.stack(calls)
        for name, calls in seen.items()
        if calls
    }


@contextlib.contextmanager
def closed_gates(net: nn.Module, layer: int | str) -> Iterator[None]:
    """While this lasts, the gates of one layer are shut: T = 0, so that y is its shortcut exactly.

    `layer` counts the gated blocks from 0, or is a block's path as `find_gates` gives it; another
    raises ModelError. This is the lesion of arXiv 1507.06228, figure 4. Nothing is left behind, after
    an exception neither.
    """
    handle = _merge_of(net, layer).sigmoid.register_forward_hook(
        lambda module, inputs, openness: torch.zeros_like(openness)
    )
    try:
        yield
    finally:
        handle.remove()


def _merge_of(net: nn.Module, layer: int | str) -> GatedMerge:
    gates = find_gates(net)
    names = list(gates)
    if isinstance(layer, str):
        if layer not in gates:
            raise ModelError(f"no gated block {layer!r}", hint=close_names(layer, names))
        return gates[layer]
    if not 0 <= layer < len(names):
        raise ModelError(
            "there is no such gated layer",
            got=layer,
            expected=f"0 to {len(names) - 1}" if names else "a net with a GatedMerge",
        )
    return gates[names[layer]]


@contextlib.contextmanager
def _captured(module: nn.Module, into: list[Tensor]) -> Iterator[None]:
    handle = module.register_forward_hook(lambda _, inputs, output: into.append(output))
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def _evaluating(net: nn.Module) -> Iterator[None]:
    """Evaluation mode; afterwards every module is in the mode that it was in."""
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
