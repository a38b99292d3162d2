"""Every named net with its numbers, and the paper's beside them. Listing needs no torch.

A family is one module in this folder that holds a literal `FAMILY` and the function it names under
"build". The literal is read from the source without importing the module, hence without torch:

    FAMILY = {
        "build": "build_vgg",               # called with a net's options, then the caller's
        "spec": "VGGSpec",                  # a dataclass whose fields are options too, but for those
        "fixed": ("widths",),               # that the function sets itself (both may be left out)
        "input_shape": (3, 224, 224),       # of one sample, for counting multiply-adds
        "kind": "image",                    # or "tokens", "pairs": see cost.example_inputs
        "recipe": "quick",                  # what `reslab train` takes when none is named
        "source": "Simonyan 2014",
        "numbered": {"vgg": {}},            # vgg<depth> is build(depth=...); may be left out
        "smallest": {"depth": 11},          # options and input of a net that trains in a second:
        "smallest_shape": (3, 32, 32),      # with it the family goes through the conformance tests
        "nets": {"vgg11": {"options": {"depth": 11}, "depth": 11, "parameters": 132_863_336, ...}},
    }

The tests check the numbers against the nets themselves.
"""

import ast
import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from reslab.errors import ModelError, UnknownNameError
from reslab.registry import Registry, close_names

__all__ = [
    "FAMILIES",
    "MODELS",
    "Family",
    "ModelEntry",
    "Origin",
    "create_model",
    "depth_of",
    "known_options",
    "list_models",
    "resolve",
    "task_of",
]


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """A named net: how it is built, what it costs, what its paper says.

    `macs` are multiply-adds of one forward on one `input_shape` sample. `paper_macs` and
    `paper_parameters` are as printed; `paper_error` is the top-1 error in percent.
    """

    name: str
    family: str
    options: dict[str, Any] = field(default_factory=dict)
    depth: int
    parameters: int
    macs: int
    input_shape: tuple[int, ...]
    paper_parameters: str = ""
    paper_macs: str = ""
    paper_error: str = ""
    source: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """Nets that one function builds: where it is, what feeds it, which names count its depth."""

    name: str
    module: str
    build: str
    spec: str = ""
    fixed: tuple[str, ...] = ()
    input_shape: tuple[int, ...]
    kind: str = "image"
    recipe: str = "quick"
    source: str = ""
    numbered: dict[str, dict[str, Any]] = field(default_factory=dict)
    smallest: dict[str, Any]
    smallest_shape: tuple[int, ...]


@dataclass(frozen=True)
class Origin:
    """What `create_model` was asked for; kept on the net as `origin` and written with its weights."""

    name: str
    options: Mapping[str, Any]


MODELS: Registry[ModelEntry] = Registry("model")
FAMILIES: Registry[Family] = Registry("family")


def _read_families(folder: Path) -> None:
    for path in sorted(folder.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "\nFAMILY = {" in text:
            _add_family(path.stem, _literal(text))


def _literal(source: str) -> dict[str, Any]:
    """The value of the module's FAMILY; only that statement is parsed, for speed."""
    begin = source.index("\nFAMILY = {") + len("\nFAMILY = ")
    end = source.index("\n}\n", begin) + 2
    return ast.literal_eval(source[begin:end])


def _add_family(stem: str, table: dict[str, Any]) -> None:
    nets = table.pop("nets")
    family = Family(name=stem, module=f"reslab.models.{stem}", **table)
    FAMILIES.add(stem, family)
    for name, row in nets.items():
        defaults = {"input_shape": family.input_shape, "source": family.source}
        MODELS.add(name, ModelEntry(name=name, family=stem, **(defaults | row)))


_read_families(Path(__file__).parent)


def list_models(pattern: str = "*") -> list[str]:
    """Names of the nets, then of the families, that match a shell pattern.

    >>> list_models("wide*")
    ['wide_resnet50_2', 'wide_resnet101_2', 'wide_resnet']
    """
    return [*MODELS.names(pattern), *(f for f in FAMILIES if fnmatch(f, pattern))]


def create_model(name: str, **options: Any) -> Any:
    """A net by name, with its family's initialisation from torch's random state.

    `options` override the name's own; `known_options(name)` lists them. Image nets take num_classes
    and in_channels. The name of a family (`FAMILIES`) builds any of its nets from options alone:
    ``create_model("cifar_resnet", depth=50)``; names that count layers take any legal depth:
    ``create_model("resnet26")``, ``create_model("plain38")``. The net's `origin` says what was asked.

    Raises UnknownNameError for a name or option that does not exist (names the nearest) and
    ModelError for a value that cannot be built, such as an impossible depth.

    >>> create_model("resnet20", num_classes=100).spec.depth
    20
    """
    family, given = resolve(name)
    known = known_options(name)
    for option in options:
        if option not in known:
            raise UnknownNameError(
                f"{name} has no option {option!r}", hint=close_names(option, known)
            )
    build = _builder(family)
    missing = [p for p in _required(build) if p not in given | options]
    if missing:
        raise ModelError(
            f"{name} needs a {' and a '.join(missing)}",
            hint=f"Such as create_model({name!r}, {missing[0]}=50).",
        )
    try:
        model = build(**(given | options))
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"{name} cannot be built with these options ({error})", got=options
        ) from error
    model.origin = Origin(name, dict(options))
    return model


def known_options(name: str) -> list[str]:
    """The options that `create_model(name, ...)` takes.

    >>> "shortcut" in known_options("resnet20"), "depth" in known_options("resnet20")
    (True, False)
    """
    family, _ = resolve(name)
    fixed = () if name in FAMILIES else ("depth", "block")
    return [option for option in _options(family) if option not in fixed]


def resolve(name: str) -> tuple[Family, dict[str, Any]]:
    """The family that builds a name, and the options that the name stands for."""
    if name in MODELS:
        entry = MODELS.get(name)
        return FAMILIES.get(entry.family), dict(entry.options)
    if name in FAMILIES:
        return FAMILIES.get(name), {}
    numbered = re.fullmatch(r"(.*?)(\d+)", name)
    for family in map(FAMILIES.get, FAMILIES):
        if numbered and numbered[1] in family.numbered:
            return family, family.numbered[numbered[1]] | {"depth": int(numbered[2])}
    raise UnknownNameError(
        f"unknown model {name!r}", hint=f"{close_names(name, list_models())} See: reslab models."
    )


def task_of(model: Any) -> str:
    """What the net learns: "classify" images, or one of the tasks of text in `reslab.data.tasks`."""
    return getattr(model, "task", "classify")


def depth_of(model: Any) -> int:
    """The paper's count of weighted layers of a net that `create_model` can build; 0 for others."""
    return model.depth if getattr(model, "origin", None) is not None else 0


@functools.cache
def _builder(family: Family) -> Any:
    return getattr(importlib.import_module(family.module), family.build)


@functools.cache
def _options(family: Family) -> tuple[str, ...]:
    """Parameters of the function, and where it passes options on, the fields of its spec."""
    build = _builder(family)
    signature = inspect.signature(build).parameters
    named = [p.name for p in signature.values() if p.kind is not p.VAR_KEYWORD]
    if family.spec:
        spec = getattr(importlib.import_module(build.__module__), family.spec)
        named += [f.name for f in dataclasses.fields(spec) if f.name not in named]
    return tuple(name for name in named if name not in family.fixed)


def _required(build: Any) -> list[str]:
    parameters = inspect.signature(build).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
