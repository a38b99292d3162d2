"""The same recording from torch.export: the model's graph, found without running it on values."""

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from reslab.errors import ModelError
from reslab.examine.operations import operation_name
from reslab.examine.recording import Call, Example, Place, Recording, Value, describe

__all__ = ["record_export"]


def record_export(model: nn.Module, example: Example) -> Recording:
    """Every operation of the graph that torch.export makes of `model` for this example.

    In-place operations are written as plain ones. Raises ModelError with export's own reason.
    """
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(example, dict):
        kwargs = example
    else:
        args = tuple(example) if isinstance(example, tuple | list) else (example,)
    try:
        with torch.no_grad():
            program = torch.export.export(_TensorsOnly(model), args, kwargs, strict=False)
            program = program.run_decompositions({})
    except Exception as error:
        reason = (str(error).strip().splitlines() or ["no message"])[0][:200]
        raise ModelError(
            f"torch.export cannot trace the model ({type(error).__name__}: {reason})",
            got=describe(example),
        ) from error
    return _read(program)


class _TensorsOnly(nn.Module):
    """The model with only the tensors of its output: export knows no caches and the like."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        return [t for t in tree_leaves(self.model(*args, **kwargs)) if isinstance(t, Tensor)]


def _read(program: torch.export.ExportedProgram) -> Recording:
    recording = Recording("export")
    signature = program.graph_signature
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    known: dict[Any, list[int]] = {}
    ordinals: Counter[tuple[str, int]] = Counter()
    for node in program.graph.nodes:
        if node.op == "placeholder":
            role = "weight" if node.name in weights else "input"
            if node.name in signature.inputs_to_lifted_tensor_constants:
                role = "constant"
            known[node] = _values(recording, node, role, None)
        elif node.op == "call_function" and node.target.__name__ == "getitem":
            # One output of an operation that gives several.
            known[node] = [known[node.args[0]][node.args[1]]]
        elif node.op == "call_function":
            stack = _stack(node, recording.classes)
            frame = stack[-1] if stack else ("", 0)
            ordinals[frame] += 1
            place = Place(*frame, -ordinals[frame])  # not a place that can be followed in a run
            inputs = tuple(v for n in _arguments(node) for v in known.get(n, ()))
            outputs = _values(recording, node, "activation", len(recording.calls))
            known[node] = outputs
            numbers = tuple(float(x) for x in tree_leaves(node.args) if isinstance(x, int | float))
            name = operation_name(node.target)
            recording.calls.append(Call(name, place, stack, inputs, tuple(outputs), numbers))
    return recording


def _values(recording: Recording, node: Any, role: str, producer: int | None) -> list[int]:
    found = []
    for output, leaf in enumerate(tree_leaves(node.meta.get("val"))):
        if isinstance(leaf, Tensor):
            value = Value(role, tuple(leaf.shape), leaf.dtype, producer, output, node.name)
            recording.values.append(value)
            found.append(len(recording.values) - 1)
    return found


def _stack(node: Any, classes: dict[str, str]) -> tuple[tuple[str, int], ...]:
    """Module paths from the outside in; export marks the later calls of a module as name@1."""
    frames = []
    for path, kind in list((node.meta.get("nn_module_stack") or {}).values())[1:]:
        name, _, call = path.partition("@")
        name = name.removeprefix("model").removeprefix(".")
        frames.append((name, int(call or 0)))
        classes[name] = str(kind).rpartition(".")[2]
    return tuple(frames)


def _arguments(node: Any) -> list[Any]:
    """The nodes among the arguments in order, repeated where a value is given twice."""
    return [a for a in tree_leaves((node.args, node.kwargs)) if isinstance(a, torch.fx.Node)]
