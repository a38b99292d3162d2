"""The residual structure of any model: where shortcut and branch part, and where they meet again.

    structure = reslab.residual_structure(torchvision.models.resnet50(), torch.randn(2, 3, 224, 224))
    for unit in structure.units:
        print(unit.name, unit.shortcut, unit.order, unit.removable)

Found in the executed graph, not in class names: at an addition one operand is an ancestor of the
other (an identity shortcut), or comes from such an ancestor through a few simple operations (a
projection, padding, a gate). Concatenations of a value with what was computed from it count too.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from torch import nn

from reslab.errors import ModelError, ReslabError, UsageError
from reslab.examine.find import Found, common_path, find_units
from reslab.examine.recording import Call, Example, Place, Recording, record_run
from reslab.examine.unchanged import unchanged

__all__ = ["Stretch", "Structure", "Unit", "residual_structure"]

METHODS = ("auto", "run", "export")


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One residual unit: y = merge(shortcut(x), branch(x)).

    `name` is the path of the module that holds branch and merge, or of the branch's weighted layers
    where several units share one; "@2" marks a module's second call. `shortcut` is "identity",
    "projection", "pad", "pool", "scaled", "dropout" or "gated"; `merge` is "add" or "concat". `order`
    is "pre" (norm or activation first in the branch), "post" (after the sum) or "none". `removable`:
    shapes in and out are equal and the merge adds, so that the identity can take the unit's place.
    `branch_modules` and `shortcut_modules` are paths of leaf modules in order of execution.
    """

    index: int
    name: str
    shortcut: str
    merge: str
    order: str
    removable: bool
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    branch_modules: tuple[str, ...]
    shortcut_modules: tuple[str, ...]
    weighted_layers: int
    parts_at: str
    meets_at: str
    meet: Place = field(repr=False)
    fork: Place | None = field(repr=False)
    fork_output: int = field(repr=False)
    branch_operand: int = field(repr=False)
    shortcut_operand: int = field(repr=False)


@dataclass(frozen=True)
class Stretch:
    """Weighted layers outside all units, run before unit `before` (len(units): after the last)."""

    before: int
    layers: tuple[str, ...]


@dataclass(frozen=True)
class Structure:
    """All residual units in order of execution, the plain stretches between, and how they were found.

    `method` is "run" (the model was watched while it ran) or "export" (torch.export). Only units
    found by "run" can be captured or changed afterwards. `notes` says what could not be seen.
    """

    method: str
    units: tuple[Unit, ...]
    stretches: tuple[Stretch, ...]
    notes: tuple[str, ...] = ()

    def unit(self, name: str | int) -> Unit:
        """The unit of that name or number; UsageError names those there are."""
        for unit in self.units:
            if name in (unit.name, unit.index):
                return unit
        known = ", ".join(u.name for u in self.units[:6]) or "none"
        raise UsageError(f"no residual unit {name!r}", expected=f"one of {known}, ...")


def residual_structure(
    model: nn.Module, example: Example, *, method: str = "auto", training: bool = False
) -> Structure:
    """The residual units of `model` for inputs like `example`, in order of execution.

    `example` is a tensor [N, ...], a tuple of arguments, or a dict of keyword arguments. "run" watches
    one forward of the model as it is, which needs no tracing and takes any control flow; "export"
    reads the graph of torch.export; "auto" runs, and exports where running failed or nothing could be
    seen. A model without residual units gives an empty list and a note. The model is left as it was.

    Raises ModelError when the model does not take the example, or can be seen in neither way, and
    UsageError for another method.

    >>> import torch, torchvision
    >>> net = torchvision.models.resnet18()
    >>> len(residual_structure(net, torch.randn(1, 3, 64, 64)).units)
    8
    """
    if method not in METHODS:
        raise UsageError("unknown method", got=method, expected=f"one of {', '.join(METHODS)}")
    with unchanged(model, training=training):
        recording, notes = _record(model, example, method)
    units = _name_units(recording, find_units(recording))
    if not units:
        notes = (*notes, "no residual unit found: nothing computed from a value is added to it")
    return Structure(recording.method, units, _stretches(recording, units), notes)


def _record(model: nn.Module, example: Example, method: str) -> tuple[Recording, tuple[str, ...]]:
    from reslab.examine.exported import record_export

    if method == "export":
        return record_export(model, example), ()
    failure: ReslabError | None = None
    try:
        recording = record_run(model, example)
        if method == "run" or any(recording.kind(c) == "weight" for c in recording.calls):
            return recording, ()
    except ModelError as error:
        if method == "run":
            raise
        failure = error
    try:
        exported = record_export(model, example)
    except ModelError as error:
        if failure is None:
            return recording, (f"no weighted operation could be seen, and {error}",)
        raise ModelError(f"{failure} It cannot be exported either: {error}") from error
    return exported, ("the model was exported, since running it showed nothing",)


def _name_units(recording: Recording, found: list[Found]) -> tuple[Unit, ...]:
    units = [_unit(recording, index, one) for index, one in enumerate(found)]
    owners = Counter(one.owner for one in found)
    named = [
        replace(unit, name=_within(recording, one)) if owners[one.owner] > 1 else unit
        for unit, one in zip(units, found, strict=True)
    ]
    seen: dict[str, int] = {}
    for position, unit in enumerate(named):
        seen[unit.name] = seen.get(unit.name, 0) + 1
        if seen[unit.name] > 1:
            named[position] = replace(unit, name=f"{unit.name}@{seen[unit.name]}")
    return tuple(named)


def _unit(recording: Recording, index: int, found: Found) -> Unit:
    meet, fork = recording.calls[found.meet], recording.values[found.fork]
    branch = [recording.calls[i] for i in found.branch_calls]
    out_shape = recording.values[meet.outputs[0]].shape
    parted = None if fork.producer is None else recording.calls[fork.producer]
    return Unit(
        index=index,
        name=found.owner[0],
        shortcut=found.shortcut,
        merge=found.merge,
        order=found.order,
        removable=found.merge == "add" and fork.shape == out_shape,
        in_shape=fork.shape,
        out_shape=out_shape,
        branch_modules=_modules(branch),
        shortcut_modules=_modules([recording.calls[i] for i in found.shortcut_calls]),
        weighted_layers=sum(recording.kind(c) == "weight" for c in branch),
        parts_at="input" if parted is None else str(parted.place),
        meets_at=str(meet.place),
        meet=meet.place,
        fork=None if parted is None else parted.place,
        fork_output=fork.output,
        branch_operand=found.branch_operand,
        shortcut_operand=found.shortcut_operand,
    )


def _modules(calls: list[Call]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.place.module for c in calls if c.place.module))


def _within(recording: Recording, found: Found) -> str:
    """The deepest module that holds all weighted layers of the branch."""
    branch = [recording.calls[i] for i in found.branch_calls]
    weighted = [call for call in branch if recording.kind(call) == "weight"]
    return common_path(weighted or branch)[0] or found.owner[0]


def _stretches(recording: Recording, units: tuple[Unit, ...]) -> tuple[Stretch, ...]:
    inside = {m for unit in units for m in (*unit.branch_modules, *unit.shortcut_modules)}
    meets = {unit.meet: unit.index for unit in units}
    found: dict[int, list[str]] = {}
    reached = 0
    for call in recording.calls:
        if call.place in meets:
            reached = meets[call.place] + 1
        if recording.kind(call) == "weight" and call.place.module not in inside:
            found.setdefault(reached, []).append(call.place.module or "model")
    return tuple(Stretch(before, tuple(dict.fromkeys(layers))) for before, layers in found.items())
