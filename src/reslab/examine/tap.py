"""Residual units read, and changed, while the model runs: lesions, captures, split gradients.

    with tapped(model, structure.units, visitor):
        model(batch)

The model runs as it is. Just before a unit's merge the visitor sees shortcut and branch and may put
others in their place; autograd follows what it returns. In-place merges (`out += identity`) and
operations stay in place for the rest of the model: what a visitor keeps must be a copy (`keep`).
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from reslab.errors import ModelError, UsageError
from reslab.examine.operations import kind_of, operation_name
from reslab.examine.recording import Example, ModuleStack, Place, call_model
from reslab.examine.structure import Structure, Unit
from reslab.examine.unchanged import unchanged

__all__ = ["Visitor", "check_sums", "keep", "lesioned", "tapped"]


class Visitor:
    """Told of every unit while a model runs; override what is needed.

    A unit in a module that is called several times is visited in each call that the structure lists.
    """

    def parts(self, unit: Unit, x: Tensor) -> None:
        """The unit's input was computed: what both sides read. It may be overwritten later."""

    def meets(self, unit: Unit, shortcut: Tensor, branch: Tensor) -> tuple[Tensor, Tensor] | None:
        """Both sides, about to merge; return a pair (shortcut, branch) to merge instead."""
        return None

    def left(self, unit: Unit, total: Tensor) -> None:
        """The merged value, before whatever follows. It may be overwritten later."""


def keep(tensor: Tensor) -> Tensor:
    """A copy without history, safe from later in-place operations."""
    return tensor.detach().clone()


@contextlib.contextmanager
def tapped(model: nn.Module, units: Sequence[Unit], visitor: Visitor) -> Iterator[None]:
    """While this lasts, every forward of `model` shows its units to `visitor`.

    The units are those of `residual_structure(model, ...)` by method "run", in the mode (training or
    evaluation) that the model is in now. Raises UsageError for units of an exported graph.
    """
    stack = ModuleStack(model)
    with stack.watching(), _Tap(model, stack, units, visitor):
        yield


@contextlib.contextmanager
def lesioned(model: nn.Module, units: Sequence[Unit]) -> Iterator[None]:
    """While this lasts, the branches of these units give zero: the lesion of Veit 2016, section 4.

    What remains of an added unit is its shortcut; of a concatenation, zeros beside the shortcut.
    Nothing of the model is changed and nothing is left behind.
    """
    with tapped(model, units, _Lesion()):
        yield


class _Lesion(Visitor):
    def meets(self, unit: Unit, shortcut: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
        return shortcut, torch.zeros_like(branch)


def check_sums(model: nn.Module, structure: Structure, example: Example) -> float:
    """The largest |shortcut + branch - sum| over all added units, of one forward in evaluation mode.

    Zero when both sides were captured rightly, in-place operations and all. Raises ModelError when
    a unit of the structure was never reached.
    """
    seen = _Sums()
    with unchanged(model), torch.no_grad(), tapped(model, structure.units, seen):
        call_model(model, example)
    missed = [u.name for u in structure.units if u.merge == "add" and u.index not in seen.errors]
    if missed:
        raise ModelError("units of this structure were not reached", got=", ".join(missed[:5]))
    return max(seen.errors.values(), default=0.0)


class _Sums(Visitor):
    def __init__(self) -> None:
        self.errors: dict[int, float] = {}
        self._sides: dict[int, Tensor] = {}

    def meets(self, unit: Unit, shortcut: Tensor, branch: Tensor) -> None:
        if unit.merge == "add":
            self._sides[unit.index] = keep(shortcut) + keep(branch)

    def left(self, unit: Unit, total: Tensor) -> None:
        if unit.merge == "add":
            expected = self._sides.pop(unit.index)
            self.errors[unit.index] = float((expected - total).abs().max()) if len(total) else 0.0


class _Tap(TorchFunctionMode):
    def __init__(
        self, model: nn.Module, stack: ModuleStack, units: Sequence[Unit], visitor: Visitor
    ) -> None:
        super().__init__()
        self._model, self._stack, self._visitor = model, stack, visitor
        self._meets = {unit.meet: unit for unit in units}
        self._forks: dict[Place, list[Unit]] = {}
        self._given: list[Unit] = []
        for unit in units:
            if unit.meet.ordinal < 0:
                raise UsageError(
                    "units of an exported graph cannot be followed in the running model",
                    hint="Find them with method='run'.",
                )
            if unit.fork is None:
                self._given.append(unit)
            else:
                self._forks.setdefault(unit.fork, []).append(unit)
        self._handle: Any = None

    def __enter__(self) -> Any:
        self._handle = self._model.register_forward_pre_hook(self._show_inputs, with_kwargs=True)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        self._handle.remove()
        super().__exit__(*error)

    def _show_inputs(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        for unit in self._given:
            self._visitor.parts(unit, leaves[unit.fork_output])

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        upcoming = self._stack.next_place()
        unit = self._meets.get(upcoming)
        if unit is not None and kind_of(operation_name(function)) in ("add", "concat"):
            args, kwargs = self._meet(unit, function, args, kwargs)
        else:
            unit = None
        result = function(*args, **kwargs)
        given = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if not given:
            return result
        place = self._stack.here()
        if unit is not None:
            self._visitor.left(unit, given[0])
        for forked in self._forks.get(place, ()):
            self._visitor.parts(forked, given[forked.fork_output])
        return result

    def _meet(self, unit: Unit, function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        shortcut = operands[unit.shortcut_operand]
        branch = operands[unit.branch_operand]
        changed = self._visitor.meets(unit, shortcut, branch)
        if changed is None:
            return args, kwargs
        swap = {id(shortcut): changed[0], id(branch): changed[1]}
        if _writes_first(function) and swap.get(id(operands[0])) is not operands[0]:
            # x.add_(y) as a statement: x itself must hold the sum afterwards.
            return _in_place(args, swap), kwargs
        return _replaced(args, swap), _replaced(kwargs, swap)


def _writes_first(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    return name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))


def _in_place(args: Any, swap: dict[int, Tensor]) -> Any:
    first, *rest = args
    wanted = swap[id(first)]
    rest = _replaced(tuple(rest), swap)
    if wanted.requires_grad or first.requires_grad:
        # A graph cannot be rewritten inside a tensor; `x += y` rebinds x to what is returned.
        return (wanted.clone(), *rest)
    first.copy_(wanted)
    return (first, *rest)


def _replaced(value: Any, swap: dict[int, Tensor]) -> Any:
    if isinstance(value, Tensor):
        return swap.get(id(value), value)
    if isinstance(value, tuple | list):
        return type(value)(_replaced(inner, swap) for inner in value)
    if isinstance(value, dict):
        return {key: _replaced(inner, swap) for key, inner in value.items()}
    return value
