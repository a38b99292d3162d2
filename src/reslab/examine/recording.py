"""What a model did in one forward, as data: every operation, what it read, what it gave, and where.

`record_run` watches the model run, as it is: control flow, in-place operations and modules called
several times included. Operations are seen at the level of torch's functions, above autograd, so a
place found here can be read and changed later while the model runs (`tap`).
"""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from reslab.errors import ModelError, ReslabError
from reslab.examine.operations import kind_of, operation_name

__all__ = [
    "Call",
    "Example",
    "ModuleStack",
    "Place",
    "Recording",
    "Value",
    "call_model",
    "record_run",
]

_NORM = re.compile(r"norm(act)?\d?d?$", re.IGNORECASE)

Example = Any  # a tensor, a tuple of arguments, or a dict of keyword arguments


@dataclass(frozen=True, order=True)
class Place:
    """One operation: the `ordinal`-th in the `call`-th call of the module at path `module`."""

    module: str
    call: int
    ordinal: int

    def __str__(self) -> str:
        again = f"@{self.call + 1}" if self.call else ""
        return f"{self.module or 'model'}{again}#{self.ordinal}"


@dataclass
class Value:
    """A tensor that came up: given ("input", "weight", "constant") or computed ("activation")."""

    role: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    producer: int | None = None
    output: int = 0
    name: str = ""


@dataclass(frozen=True)
class Call:
    """One operation in order of execution; `inputs` and `outputs` index `Recording.values`."""

    operation: str
    place: Place
    stack: tuple[tuple[str, int], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    numbers: tuple[float, ...] = ()


@dataclass
class Recording:
    """All values and operations of one forward; `method` is how it was taken ("run", "export").

    `classes` has the class name of the module at each path.
    """

    method: str
    classes: dict[str, str] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def kind(self, call: Call) -> str:
        """What the operation does (`operations.kind_of`); all parts of a hand-written norm are one."""
        kind = kind_of(call.operation)
        if kind != "weight" and _NORM.search(self.classes.get(call.place.module, "")):
            return "norm"
        return kind

    def consumers(self) -> list[list[int]]:
        """For each value the operations that read it, in order."""
        found: list[list[int]] = [[] for _ in self.values]
        for index, call in enumerate(self.calls):
            for value in dict.fromkeys(call.inputs):
                found[value].append(index)
        return found


def call_model(model: nn.Module, example: Example) -> Any:
    """The model's output for a tensor, a tuple or list of arguments, or a dict of keyword arguments.

    A dict is passed by name, as transformers' models take it.
    """
    if isinstance(example, dict):
        return model(**example)
    if isinstance(example, tuple | list):
        return model(*example)
    return model(example)


class ModuleStack:
    """Which module runs, and in which of its calls; hooks that are removed at the end of `watching`.

    `count` numbers the operations within each call, so that a place has the same name every time.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._names = {module: name for name, module in model.named_modules()}
        self.reset()

    def reset(self) -> None:
        """Forget all calls: the next forward starts at zero."""
        self.stack: list[tuple[str, int]] = []
        self._calls: Counter[str] = Counter()
        self._ordinals: Counter[tuple[str, int]] = Counter()

    def next_place(self) -> Place:
        """The place that the operation which runs next will have, if it gives a tensor."""
        frame = self.stack[-1] if self.stack else ("", 0)
        return Place(*frame, self._ordinals[frame])

    def here(self) -> Place:
        """The place of the operation that just ran; counts it."""
        place = self.next_place()
        self._ordinals[place.module, place.call] += 1
        return place

    @contextlib.contextmanager
    def watching(self) -> Iterator["ModuleStack"]:
        """Follow the model's calls while this lasts."""
        handles: list[Any] = []
        try:
            for module in self._names:
                handles.append(module.register_forward_pre_hook(self._enter, prepend=True))
                handles.append(module.register_forward_hook(self._leave, always_call=True))
            yield self
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: nn.Module, arguments: Any) -> None:
        name = self._names[module]
        if module is self.model:
            self.reset()
        self.stack.append((name, self._calls[name]))
        self._calls[name] += 1

    def _leave(self, module: nn.Module, arguments: Any, output: Any) -> None:
        if self.stack:
            self.stack.pop()


def record_run(model: nn.Module, example: Example) -> Recording:
    """Run the model on `example` once, without gradients, and record every operation.

    The mode (training or evaluation) is the model's own. Raises ModelError, naming the model's own
    complaint, when it does not take the example.
    """
    stack = ModuleStack(model)
    recorder = _Recorder(model, stack)
    recorder.give(example)
    try:
        with stack.watching(), torch.no_grad(), recorder:
            call_model(model, example)
    except ReslabError:
        raise
    except Exception as error:
        raise ModelError(
            f"the model does not run on this example ({type(error).__name__}: {_first_line(error)})",
            got=describe(example),
            hint="Give an input that the model's forward takes.",
        ) from error
    return recorder.recording


def describe(example: Example) -> str:
    """Shapes and dtypes of an example, in a line.

    >>> describe((torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)))
    'float32 [2, 3], int64 [2]'
    """
    leaves = [leaf for leaf in tree_leaves(example) if isinstance(leaf, Tensor)]
    shapes = [f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}" for t in leaves]
    return ", ".join(shapes) or "no tensor"


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0][:200] if text else "no message"


class _Recorder(TorchFunctionMode):
    """Sees each call of a torch function; tensors are known by identity while all are kept alive."""

    def __init__(self, model: nn.Module, stack: ModuleStack) -> None:
        super().__init__()
        classes = {name: type(module).__name__ for name, module in model.named_modules()}
        self.recording = Recording("run", classes)
        self._stack = stack
        self._alive: list[Tensor] = []
        self._known: dict[int, int] = {}
        for role, named in (
            ("weight", model.named_parameters()),
            ("weight", model.named_buffers()),
        ):
            for name, tensor in named:
                self._add(tensor, role, name=name)

    def give(self, example: Example) -> None:
        """Register the model's inputs."""
        given = [leaf for leaf in tree_leaves(example) if isinstance(leaf, Tensor)]
        for number, leaf in enumerate(given):
            self._add(leaf, "input", output=number)

    def _add(self, tensor: Tensor, role: str, **more: Any) -> int:
        value = Value(role, tuple(tensor.shape), tensor.dtype, **more)
        self.recording.values.append(value)
        self._alive.append(tensor)
        self._known[id(tensor)] = len(self.recording.values) - 1
        return self._known[id(tensor)]

    def _value(self, tensor: Tensor) -> int:
        known = self._known.get(id(tensor))
        return self._add(tensor, "constant") if known is None else known

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        inputs = tuple(self._value(leaf) for leaf in leaves if isinstance(leaf, Tensor))
        result = function(*args, **kwargs)
        given = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if not given:
            return result
        place = self._stack.here()
        index = len(self.recording.calls)
        outputs = tuple(
            self._add(tensor, "activation", producer=index, output=number)
            for number, tensor in enumerate(given)
        )
        numbers = tuple(float(x) for x in leaves if isinstance(x, int | float))
        name, frames = operation_name(function), tuple(self._stack.stack)
        self.recording.calls.append(Call(name, place, frames, inputs, outputs, numbers))
        return result
