"""What a run is, as one frozen dataclass: the YAML file, the flags and the record in the run folder.

Named recipes are the YAML files in ``reslab/recipes``; ``reslab recipes`` lists them and
``reslab recipes paper`` prints one to start your own from. No torch.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from reslab import files
from reslab.errors import RecipeError, UnknownNameError
from reslab.registry import close_names

__all__ = ["Recipe", "list_recipes", "load_recipe", "write_recipe"]


def _option(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    at_least: float | None = None,
    at_most: float | None = None,
) -> Any:
    metadata = {"help": help, "choices": choices, "at_least": at_least, "at_most": at_most}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides a run. Values are checked when the recipe is made.

    Lengths of schedule are fractions of the budget, so a shorter budget keeps the schedule's shape.

    >>> Recipe(iterations=8000).milestones
    (0.5, 0.75)
    >>> Recipe(lr=-1)
    Traceback (most recent call last):
        ...
    reslab.errors.RecipeError: lr is out of range: got -1.0, expected 0.0 or more
    """

    name: str = _option("custom", "what the recipe is called")
    model: str = _option("", "model by name; see `reslab models`")
    model_options: dict[str, Any] = _option(
        {}, "options of the model, such as shortcut: projection"
    )
    weights: str = _option("", "weights to start from, loaded where they fit")
    data: str = _option("digits", "data set by name, a folder of images, or text files")
    seed: int = _option(
        0, "seed of initial weights, order and augmentation", at_least=0, at_most=2**63 - 1
    )
    holdout: int = _option(
        0, "training samples kept apart for validation (45k/5k: 5000)", at_least=0
    )

    iterations: int | None = _option(None, "length in optimizer steps", at_least=1)
    epochs: float | None = _option(None, "length in passes over the training set", at_least=0)
    batch_size: int = _option(128, "samples an optimizer step", at_least=1)
    accumulate: int = _option(1, "parts a batch is computed in, gradients added", at_least=1)

    optimizer: str = _option("sgd", "optimizer", choices=("sgd", "adamw"))
    lr: float = _option(0.1, "learning rate", at_least=0.0)
    momentum: float = _option(0.9, "SGD momentum", at_least=0.0, at_most=1.0)
    nesterov: bool = _option(False, "Nesterov momentum")
    betas: tuple[float, ...] = _option((0.9, 0.999), "AdamW: decay of its two averages")
    weight_decay: float = _option(1e-4, "L2 penalty", at_least=0.0)
    decay_norms: bool = _option(True, "whether biases and norm parameters decay too")
    schedule: str = _option(
        "step",
        "learning rate over time",
        choices=("step", "cosine", "linear", "inverse_sqrt", "constant"),
    )
    milestones: tuple[float, ...] = _option(
        (0.5, 0.75), "step schedule: fractions of the budget where lr is multiplied"
    )
    lr_factor: float = _option(0.1, "step schedule: the multiplier", at_least=0.0)
    warmup: str = _option(
        "none", "start of training", choices=("none", "linear", "constant", "until_error")
    )
    warmup_lr: float = _option(0.01, "learning rate in (or at the start of) warm-up", at_least=0.0)
    warmup_fraction: float = _option(
        0.0, "linear, constant: warm-up as a fraction of the budget", at_least=0.0, at_most=1.0
    )
    warmup_error: float = _option(
        80.0,
        "until_error: training error in percent that ends warm-up",
        at_least=0.0,
        at_most=100.0,
    )
    warmup_min_depth: int = _option(
        0, "until_error: only nets with at least this depth warm up", at_least=0
    )
    label_smoothing: float = _option(0.0, "label smoothing", at_least=0.0, at_most=1.0)
    clip_norm: float | None = _option(None, "largest gradient norm of a step", at_least=0.0)
    ema_decay: float | None = _option(
        None, "decay of the weight average that is evaluated", at_least=0.0, at_most=1.0
    )

    normalize: str = _option(
        "mean_std", "input statistics, from the training split", choices=("mean_std", "pixel_mean")
    )
    crop_padding: int = _option(0, "arrays: pad by this much, then crop at random", at_least=0)
    flip: bool = _option(False, "mirror at random")
    cutout: int = _option(0, "arrays: side of the square set to zero", at_least=0)
    crop: str = _option(
        "random_resized",
        "folders: training crop",
        choices=("random_resized", "short_side", "center"),
    )
    image_size: int = _option(224, "folders: side of the input", at_least=1)
    bad_images: str = _option(
        "fail", "folders: what to do with unreadable pictures", choices=("fail", "skip")
    )

    empty_classes: str = _option(
        "error", "folders: a class without pictures", choices=("error", "keep", "drop")
    )

    sequence_length: int = _option(64, "running text: tokens a sample", at_least=2)
    vocabulary_size: int = _option(
        4096, "text files: sub-words learnt from the training split", at_least=300
    )

    precision: str = _option(
        "auto", "arithmetic of forward and backward", choices=("auto", "fp32", "bf16", "fp16")
    )
    channels_last: bool = _option(True, "memory layout that convolutions like")
    compile: bool = _option(False, "torch.compile the step (pays off in long runs)")
    device: str = _option("auto", "cpu, cuda, cuda:1, mps, or auto for the best present")
    workers: int = _option(2, "folders: loader processes", at_least=0)

    eval_every: int = _option(0, "iterations between evaluations; 0: every epoch", at_least=0)
    log_every: int = _option(0, "iterations between log records; 0: about 200 a run", at_least=0)
    checkpoint_every: int = _option(
        0, "iterations between checkpoints; 0: every epoch, at most 1000", at_least=0
    )
    keep_checkpoints: int = _option(2, "latest checkpoints kept, beside the best", at_least=1)

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for item in dataclasses.fields(self):
            value = _coerce(item.name, getattr(self, item.name), hints[item.name])
            object.__setattr__(self, item.name, value)
            _check(item, value)
        if self.iterations is not None and self.epochs is not None:
            raise RecipeError(
                "a recipe has one length",
                got=f"iterations={self.iterations} and epochs={self.epochs}",
                expected="one of them",
            )
        if list(self.milestones) != sorted(self.milestones) or not all(
            0 < m < 1 for m in self.milestones
        ):
            raise RecipeError(
                "milestones are wrong",
                got=self.milestones,
                expected="rising fractions of the budget between 0 and 1, such as 0.5, 0.75",
            )
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise RecipeError("betas are wrong", got=self.betas, expected="two from 0 to below 1")
        if self.nesterov and not self.momentum:
            raise RecipeError("nesterov needs momentum", got=self.momentum, expected="above 0")
        if self.accumulate > self.batch_size:
            raise RecipeError(
                "accumulate is too large", got=self.accumulate, expected="at most batch_size"
            )

    def updated(self, changes: Mapping[str, Any]) -> "Recipe":
        """The recipe with these values changed; setting one length clears the other.

        >>> Recipe(epochs=3).updated({"iterations": "10"}).epochs is None
        True
        """
        known = self.names()
        for key in changes:
            if key not in known:
                raise UnknownNameError(f"unknown recipe key {key!r}", hint=close_names(key, known))
        values = dict(changes)
        if values.get("iterations") is not None and "epochs" not in values:
            values["epochs"] = None
        if values.get("epochs") is not None and "iterations" not in values:
            values["iterations"] = None
        return dataclasses.replace(self, **values)

    def to_dict(self) -> dict[str, Any]:
        """The recipe as plain values, for YAML and JSON."""
        values = dataclasses.asdict(self)
        for name in ("milestones", "betas"):
            values[name] = list(values[name])
        return values

    @classmethod
    def names(cls) -> list[str]:
        """Names of all recipe values."""
        return [item.name for item in dataclasses.fields(cls)]

    @property
    def without_effect(self) -> list[str]:
        """Sentences about values that were changed but that the other values switch off."""
        return [
            f"{name}={getattr(self, name)} has no effect: {reason}"
            for name, is_off, reason in (
                ("milestones", self.schedule != "step", f"schedule is {self.schedule}"),
                ("lr_factor", self.schedule != "step", f"schedule is {self.schedule}"),
                (
                    "warmup_fraction",
                    self.warmup not in ("linear", "constant"),
                    f"warmup is {self.warmup}",
                ),
                (
                    "warmup",
                    self.warmup in ("linear", "constant") and not self.warmup_fraction,
                    "warmup_fraction is 0",
                ),
                ("warmup_lr", self.warmup == "none", "warmup is none"),
                ("warmup_min_depth", self.warmup != "until_error", f"warmup is {self.warmup}"),
                ("momentum", self.optimizer != "sgd", f"optimizer is {self.optimizer}"),
                ("nesterov", self.optimizer != "sgd", f"optimizer is {self.optimizer}"),
                ("betas", self.optimizer != "adamw", f"optimizer is {self.optimizer}"),
            )
            if is_off and getattr(self, name) != _default(name)
        ]


def _default(name: str) -> Any:
    return next(f.default for f in dataclasses.fields(Recipe) if f.name == name)


def _coerce(name: str, value: Any, hint: Any) -> Any:
    """The value as the field's type; text is read as YAML, so flags and files agree."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if isinstance(value, str) and str not in kinds:
        value = _from_text(name, value)
    if value is None and type(None) in kinds:
        return None
    kind = next(k for k in kinds if k is not type(None))
    origin = typing.get_origin(kind) or kind
    try:
        if origin is tuple:
            parts = value if isinstance(value, list | tuple) else str(value or "").split(",")
            return tuple(float(part) for part in parts if part != "")
        if origin is dict:
            return dict(value or {})
        if origin is bool and not isinstance(value, bool):
            raise ValueError
        if origin is int and (isinstance(value, bool) or int(value) != float(value)):
            raise ValueError
        return origin(value)
    except (TypeError, ValueError, OverflowError):
        raise RecipeError(
            f"{name} has the wrong type", got=value, expected=getattr(origin, "__name__", origin)
        ) from None


def _from_text(name: str, text: str) -> Any:
    try:
        return yaml.safe_load(text.replace("None", "null")) if text else None
    except yaml.YAMLError:
        raise RecipeError(f"{name} cannot be read", got=text, expected="a plain value") from None


def _check(item: dataclasses.Field[Any], value: Any) -> None:
    choices, low, high = (item.metadata[k] for k in ("choices", "at_least", "at_most"))
    if choices and value not in choices:
        raise RecipeError(
            f"{item.name} is unknown",
            got=value,
            expected=f"one of {', '.join(choices)}",
            hint=close_names(str(value), list(choices)),
        )
    if value is None:
        return
    if isinstance(value, float) and not math.isfinite(value):
        raise RecipeError(f"{item.name} is out of range", got=value, expected="a finite number")
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        limits = f"{low} to {high}" if high is not None else f"{low} or more"
        raise RecipeError(f"{item.name} is out of range", got=value, expected=limits)


def list_recipes() -> list[str]:
    """Names of the recipes that come with reslab."""
    folder = resources.files("reslab.recipes")
    return sorted(
        p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml")
    )


def load_recipe(source: "str | Path | Recipe") -> Recipe:
    """A recipe by name or from a YAML file.

    Raises UnknownNameError (names the nearest recipe) and RecipeError (names file and key).

    >>> load_recipe("paper").batch_size
    128
    """
    if isinstance(source, Recipe):
        return source
    if str(source) in list_recipes():
        text = resources.files("reslab.recipes").joinpath(f"{source}.yaml").read_text("utf-8")
    elif Path(source).is_file():
        text = _read_text(Path(source))
    else:
        raise UnknownNameError(
            f"unknown recipe {str(source)!r}",
            hint=f"{close_names(str(source), list_recipes())} A path to a YAML file works too.",
        )
    return _parse(text, str(source))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path} is not UTF-8 text ({error})") from error


def _parse(text: str, source: str) -> Recipe:
    try:
        values = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise RecipeError(f"{source} is not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(values, dict):
        raise RecipeError(f"{source} is not a recipe", got=values, expected="lines of 'key: value'")
    return Recipe().updated({str(key): value for key, value in values.items()})


def write_recipe(path: Path, recipe: Recipe) -> None:
    """Write the recipe as YAML, every value, atomically."""
    files.write_text(path, yaml.safe_dump(recipe.to_dict(), sort_keys=False))
