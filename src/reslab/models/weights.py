"""Weights in and out: ours (safetensors with JSON metadata) and other people's, without pickle.

report = reslab.load_weights(model, "resnet20.th")
reslab.save_weights("net.safetensors", model, classes=("cat", "dog"))
model = reslab.load_model("net.safetensors")
"""

import json
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from reslab import files
from reslab.errors import WeightsError
from reslab.models.catalog import Origin, create_model
from reslab.models.convert import find_layout, layout_named, strip_prefixes

__all__ = [
    "LoadReport",
    "describe_model",
    "load_model",
    "load_weights",
    "read_metadata",
    "save_weights",
    "state_dict_for",
    "unwrap",
]

_WRAPPERS = ("state_dict_ema", "model_ema", "ema", "state_dict", "model_state_dict", "model", "net")
_HEAD = "head.classifier."
METADATA_KEY = "reslab"
_UNREADABLE = (
    safetensors.SafetensorError,
    zipfile.BadZipFile,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    KeyError,
)


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What `load_weights` did.

    `layout` is whose names the keys were in; `missing` are tensors of the model that the source
    lacks and that keep their initial values; `unexpected` are tensors of the source that the model
    lacks; `skipped` differ in shape; `adapted` was reshaped to fit. `mean` and `std` are the input
    statistics these weights expect, where known.
    """

    layout: str
    loaded: int
    prefixes: tuple[str, ...] = ()
    wrapper: str = ""
    adapted: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        where = f" from {self.wrapper}" if self.wrapper else ""
        lines = [f"loaded {self.loaded} tensors{where} ({self.layout} names)"]
        for label in ("prefixes", "adapted", "missing", "unexpected", "skipped"):
            names = getattr(self, label)
            if names:
                lines.append(f"{label}: {', '.join(names)}")
        return "; ".join(lines)


def load_weights(
    model: nn.Module,
    source: str | Path | Mapping[str, Any],
    *,
    partial: bool = False,
    trust_pickle: bool = False,
) -> LoadReport:
    """Put weights into the model: all of them, or none and WeightsError.

    `source` is a file (safetensors, or a torch file read with `weights_only`) or a state dict, in
    reslab's names, torchvision's (timm's ResNets use the same) or those of pytorch_resnet_cifar10.
    `partial=True` loads what fits and lists the rest in the report; a stem for another number of
    input channels is adapted so that its activations keep their scale. `trust_pickle=True` lets a file
    run code while it is read: only for files you would run as a program.

    >>> import reslab
    >>> from torchvision.models import resnet18
    >>> str(load_weights(reslab.create_model("resnet18"), resnet18().state_dict()))
    'loaded 122 tensors (torchvision names)'
    """
    state, wrapper, metadata = _read(source, trust_pickle)
    model = unwrap(model)
    prefixes: tuple[str, ...] = ()
    layout = None
    if not state.keys() <= model.state_dict().keys():
        state, prefixes = strip_prefixes(state)
        layout = find_layout(state, model.state_dict(), getattr(model, "layouts", ()))
        state = layout.translate(state, to_ours=True) if layout else state
    adapted = _adapt_stem(model, state) if partial else ()
    report, fitting = _match(model, state)
    if not partial and (report["missing"] or report["unexpected"] or report["skipped"]):
        raise WeightsError(_misfit(model, state, report), hint=_misfit_hint(report))
    if not fitting:
        raise WeightsError(
            "none of these weights fit the model", hint="Is it another architecture?"
        )
    model.load_state_dict(fitting, strict=False)
    return LoadReport(
        layout=layout.name if layout else "reslab",
        loaded=len(fitting),
        prefixes=prefixes,
        wrapper=wrapper,
        adapted=adapted,
        mean=layout.mean if layout else None,
        std=layout.std if layout else None,
        metadata=metadata,
        **report,
    )


def _adapt_stem(model: nn.Module, state: dict[str, Tensor]) -> tuple[str, ...]:
    """Give a stem trained on C channels to a net of K, in place in `state`.

    One channel gets the sum of the filters (a grey picture is all channels alike); more channels
    repeat them, scaled by C / K, so that activations keep their scale either way.
    """
    name = "stem.conv.weight"
    own = model.state_dict().get(name)
    if own is None or name not in state or own.shape[2:] != state[name].shape[2:]:
        return ()
    theirs, wanted, given = state[name], own.shape[1], state[name].shape[1]
    if wanted == given or len(own) != len(theirs):
        return ()
    if wanted == 1:
        state[name] = theirs.sum(1, keepdim=True)
    else:
        repeated = theirs.repeat(1, -(-wanted // given), 1, 1)[:, :wanted]
        state[name] = repeated * (given / wanted)
    return (f"{name} from {given} to {wanted} input channels",)


def _match(
    model: nn.Module, state: Mapping[str, Tensor]
) -> tuple[dict[str, tuple[str, ...]], dict[str, Tensor]]:
    own = model.state_dict()
    # Step counters of batch norm came late to torch; files from before lack them harmlessly.
    missing = [k for k in own if k not in state and not k.endswith("num_batches_tracked")]
    skipped = [k for k in own if k in state and own[k].shape != state[k].shape]
    fitting = {k: v for k, v in state.items() if k in own and k not in skipped}
    unexpected = [k for k in state if k not in own]
    shapes = [f"{k} {tuple(state[k].shape)} for {tuple(own[k].shape)}" for k in skipped]
    report = {
        "missing": tuple(missing),
        "unexpected": tuple(unexpected),
        "skipped": tuple(shapes),
    }
    return report, fitting


def _misfit(
    model: nn.Module, state: Mapping[str, Tensor], report: Mapping[str, tuple[str, ...]]
) -> str:
    own = model.state_dict()
    name = describe_model(model)["model"] or type(model).__name__
    classes = state.get(f"{_HEAD}bias")
    if classes is not None and f"{_HEAD}bias" in own and len(report["skipped"]) == 2:
        theirs, ours = len(classes), len(own[f"{_HEAD}bias"])
        if theirs != ours:
            return f"these weights score {theirs} classes and {name} scores {ours}"
    parts = []
    for label, names in report.items():
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            parts.append(f"{len(names)} {label} ({', '.join(names[:3])}{more})")
    return f"these weights do not fit {name}: {'; '.join(parts)}"


def _misfit_hint(report: Mapping[str, tuple[str, ...]]) -> str:
    if all(name.startswith(_HEAD) for name in report["skipped"]) and not report["missing"]:
        return "Build the model with that num_classes, or load with partial=True for a new head."
    return "Check the model name and its options (shortcut, stem, num_classes)."


def _read(
    source: str | Path | Mapping[str, Any], trust_pickle: bool
) -> tuple[dict[str, Tensor], str, dict[str, Any]]:
    if isinstance(source, Mapping):
        content: Any = source
        metadata: dict[str, Any] = {}
    else:
        content, metadata = _read_file(Path(source), trust_pickle)
    state, wrapper = _unwrap(content)
    return state, wrapper, metadata


def _unwrap(content: Any) -> tuple[dict[str, Tensor], str]:
    if not isinstance(content, Mapping):
        raise WeightsError(
            "this is no state dict",
            got=type(content).__name__,
            expected="a mapping of names to tensors",
        )
    for wrapper in _WRAPPERS:
        if isinstance(content.get(wrapper), Mapping):
            state, inner = _unwrap(content[wrapper])
            return state, f"{wrapper}.{inner}" if inner else wrapper
    tensors = {k: v for k, v in content.items() if isinstance(v, Tensor)}
    if tensors:
        return tensors, ""
    raise WeightsError(
        "no tensors found", got=sorted(map(str, content))[:5], expected="a state dict"
    )


def _read_file(path: Path, trust_pickle: bool) -> tuple[Any, dict[str, Any]]:
    if not path.is_file():
        raise WeightsError(f"no weights file at {path}", hint="Check the path.")
    try:
        if _is_safetensors(path):
            return safetensors.torch.load_file(path), read_metadata(path)
        return _read_torch(path, trust_pickle), {}
    except pickle.UnpicklingError as error:
        raise WeightsError(
            f"{path} holds more than tensors, or is no weights file",
            hint="If you trust its author like a program's, load it with trust_pickle=True "
            "(reslab eval --trust-pickle).",
        ) from error
    except _UNREADABLE as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else "unexpected end"
        raise WeightsError(f"{path} cannot be read as weights ({first})") from error


def _read_torch(path: Path, trust_pickle: bool) -> Any:
    with warnings.catch_warnings():
        # torch warns of old pickle protocols; what it cannot read raises all the same.
        warnings.simplefilter("ignore", UserWarning)
        return torch.load(path, map_location="cpu", weights_only=not trust_pickle)


def _is_safetensors(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(9)
    size = int.from_bytes(head[:8], "little")
    return len(head) == 9 and head[8:] == b"{" and size < 100_000_000


def state_dict_for(model: nn.Module, layout: str = "torchvision") -> dict[str, Tensor]:
    """The model's weights under another code base's names, unchanged; loads strictly there."""
    if layout == "reslab":
        return dict(model.state_dict())
    known = layout_named(layout, getattr(model, "layouts", ()))
    return known.translate(model.state_dict(), to_ours=False)


def save_weights(path: str | Path, model: nn.Module, **about: Any) -> None:
    """Write the model's weights as safetensors, atomically.

    The architecture (name and options) and whatever JSON values are given, such as `classes`,
    `preprocessing` and `recipe`, travel in the file's metadata under the key "reslab".
    """
    model = unwrap(model)
    metadata = describe_model(model) | about
    # Copies, because safetensors refuses tensors that share memory (tied weights).
    state = {k: v.detach().cpu().contiguous().clone() for k, v in model.state_dict().items()}
    content = safetensors.torch.save(state, {METADATA_KEY: json.dumps(metadata)})
    with files.write_atomic(Path(path)) as file:
        file.write(content)


def unwrap(model: nn.Module) -> nn.Module:
    """The net inside torch.compile's and data parallelism's wrappers, nested either way."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, nn.DataParallel | DistributedDataParallel):
            inner = model.module
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def describe_model(model: nn.Module) -> dict[str, Any]:
    """Name and options by which `create_model` builds the net; empty for other people's classes."""
    origin = getattr(model, "origin", None)
    if isinstance(origin, Origin):
        return {"model": origin.name, "options": dict(origin.options)}
    return {"model": "", "options": {}}


def read_metadata(path: str | Path) -> dict[str, Any]:
    """What `save_weights` wrote beside the tensors; empty for files of others."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get(METADATA_KEY, "{}")
        return json.loads(text)
    except (safetensors.SafetensorError, OSError) as error:
        raise WeightsError(f"{path} cannot be read as safetensors ({error})") from error


def load_model(path: str | Path) -> nn.Module:
    """The net that a reslab weights file describes, with its weights, in evaluation mode."""
    if not Path(path).is_file():
        raise WeightsError(f"no weights file at {path}", hint="Check the path.")
    about = read_metadata(path) if _is_safetensors(Path(path)) else {}
    if not about.get("model"):
        raise WeightsError(
            f"{path} does not say which model it is of",
            hint="Name it: load_weights(create_model(NAME), path), or --model NAME.",
        )
    model = create_model(about["model"], **about["options"])
    load_weights(model, path)
    return model.eval()
