"""One process's part of a run: everything set up, checked against each other, then run."""

import contextlib
import logging
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from reslab.data import (
    ArraySplit,
    Augment,
    Data,
    EvalBatch,
    EvalLoader,
    FolderAugment,
    FolderSplit,
    Inputs,
    Preprocessing,
    TokenSplit,
    build_eval_loader,
    build_train_loader,
    prepare_task,
)
from reslab.errors import DataError, ModelError, RecipeError, ReslabError
from reslab.models.catalog import depth_of, task_of
from reslab.models.weights import save_weights
from reslab.recipe import Recipe
from reslab.records import CurvePoint, EvalResult, to_json
from reslab.seeding import seed_everything
from reslab.train.checkpoint import Checkpoints
from reslab.train.environment import describe_environment
from reslab.train.evaluate import evaluate_batches, evaluation_mode
from reslab.train.evaluate_text import evaluate_text
from reslab.train.loop import Plan, RunInterrupted, train
from reslab.train.observers import JsonLines, Observer, TensorBoard
from reslab.train.precision import choose_device
from reslab.train.run import RunFolder
from reslab.train.state import TrainState
from reslab.train.step import on_device

__all__ = [
    "Run",
    "Session",
    "as_task",
    "check_fit",
    "eval_batch_size",
    "first_batch",
    "gives_pictures",
    "preprocessing_of",
    "score",
    "scores_of",
    "with_holdout",
]

_log = logging.getLogger("reslab")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished training: its folder, the net that was evaluated, its scores and its curve."""

    folder: RunFolder
    model: nn.Module
    result: EvalResult
    curve: tuple[CurvePoint, ...]


class Session:
    """One process's part of a run: everything set up, checked against each other, then run."""

    def __init__(self, model: nn.Module, data: Data, recipe: Recipe, folder: RunFolder) -> None:
        self.recipe, self.folder, self.task = recipe, folder, task_of(model)
        self.data = as_task(with_holdout(data, recipe), model, recipe)
        self.preprocessing = preprocessing_of(self.data, recipe)
        self.test = build_eval_loader(
            self.data.test,
            preprocessing=self.preprocessing,
            batch_size=eval_batch_size(self.data),
            workers=recipe.workers,
        )
        self.loader = build_train_loader(
            self.data.train,
            preprocessing=self.preprocessing,
            augment=_augment(self.data, recipe),
            batch_size=recipe.batch_size,
            seed=recipe.seed,
            workers=recipe.workers,
        )
        for note in self.loader.notes:
            _log.warning("%s", note)
        seed_everything(recipe.seed)
        self.state = TrainState(model, recipe, choose_device(recipe.device))
        check_fit(self.state.model, first_batch(self.test).views[0], scores_of(self.data))
        self.checkpoints = Checkpoints(folder.checkpoints, keep=recipe.keep_checkpoints)
        self.total = _total(recipe, self.loader.batches_per_epoch)
        self._last: EvalResult | None = None

    def run(self, observers: Sequence[Observer]) -> Run:
        """Train to the end and write what was found."""
        start = self.state.progress.iteration
        told: tuple[Observer, ...] = (
            JsonLines(self.folder.metrics, resumed_at=start),
            TensorBoard(self.folder.path / "tensorboard", resumed_at=start),
            *observers,
        )
        for observer in told:
            observer.record({"kind": "start", "iteration": start, "total": self.total})
        try:
            with self._status():
                train(self.state, self._plan(told))
                result = self._last or self.evaluate(self.state.evaluated)
                self.keep(self.folder.weights, self.state.evaluated)
                self.describe("finished", result=to_json(result))
        finally:
            for observer in told:
                observer.close()
        return Run(
            folder=self.folder,
            model=self.state.evaluated,
            result=result,
            curve=self.folder.curve(),
        )

    def _plan(self, observers: tuple[Observer, ...]) -> Plan:
        recipe, epoch = self.recipe, self.loader.batches_per_epoch
        model = self.state.model
        return Plan(
            recipe=recipe,
            loader=self.loader,
            total=self.total,
            depth=depth_of(model),
            evaluate=self.evaluate,
            keep_best=lambda net: self.keep(self.folder.best, net),
            checkpoints=self.checkpoints,
            observers=observers,
            eval_every=recipe.eval_every or epoch,
            log_every=recipe.log_every or max(1, self.total // 200),
            checkpoint_every=recipe.checkpoint_every or min(epoch, 1000),
        )

    def evaluate(self, net: nn.Module) -> EvalResult:
        """Scores on the test split."""
        self._last = score(net, self.test, task=self.task, classes=self.data.classes)
        return self._last

    def keep(self, path: Path, net: nn.Module) -> None:
        """Write the net with everything needed to use it elsewhere."""
        preprocessing = self.preprocessing.to_json() if self.preprocessing else None
        save_weights(
            path,
            net,
            classes=list(self.data.classes),
            preprocessing=preprocessing,
            tokenizer=self.data.tokenizer,
            recipe=self.recipe.to_dict(),
        )

    def describe(self, status: str, **more: Any) -> None:
        """Write run.json."""
        about = {
            "status": status,
            "recipe": self.recipe.to_dict(),
            "precision": self.state.stepper.precision,
            "total_iterations": self.total,
            "iteration": self.state.progress.iteration,
            "seconds": round(self.state.progress.seconds, 3),
            "data_sums": dict(self.data.sums),
            "classes": list(self.data.classes),
            "environment": describe_environment(self.state.device),
            "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        self.folder.write_about(about | more)

    @contextlib.contextmanager
    def _status(self) -> Iterator[None]:
        try:
            yield
        except RunInterrupted as error:
            self.describe("interrupted")
            raise RunInterrupted(
                error.what, hint=f"Go on with: reslab resume {self.folder.path}"
            ) from None
        except ReslabError as error:
            with contextlib.suppress(ReslabError):
                self.describe("failed", error=str(error))
            raise


def with_holdout(data: Data, recipe: Recipe) -> Data:
    """The data as the recipe trains and tests on it: with its hold-out, if it has one."""
    return data.hold_out(recipe.holdout, seed=recipe.seed) if recipe.holdout else data


def as_task(data: Data, model: nn.Module, recipe: Recipe) -> Data:
    """Text as this net reads it, other data as it is; DataError when they do not fit."""
    task = task_of(model)
    if not data.is_text:
        if task != "classify" and gives_pictures(data):
            raise DataError(
                f"{data.name} holds pictures and this net reads text",
                hint="Give text, such as --data reverse; see: reslab data list.",
            )
        return data
    window = getattr(model, "context", 0)
    return prepare_task(data, task, length=recipe.sequence_length, window=window)


def scores_of(data: Data) -> int:
    """How many scores a net for this data gives a sample or token; 0 where that is not known."""
    if isinstance(data.train, TokenSplit) and not data.classes:
        return data.train.vocabulary_size
    return len(data.classes)


def score(
    net: nn.Module,
    loader: Iterable[EvalBatch],
    *,
    task: str,
    classes: tuple[str, ...],
    view: str = "single",
) -> EvalResult:
    """Scores of the net, by class where there are classes, by token where it reads text."""
    if task in ("classify", "label", "pair_label"):
        return evaluate_batches(net, loader, classes=classes, view=view)
    return evaluate_text(net, loader, task=task)


def first_batch(loader: EvalLoader) -> EvalBatch:
    """The first batch; DataError when no sample of the split can be read."""
    batch = next(iter(loader), None)
    if batch is None:
        raise DataError("no sample of the test split can be read", expected="at least one")
    return batch


def gives_pictures(data: Data) -> bool:
    """Whether reslab reads the data itself; other Datasets give tensors already."""
    return isinstance(data.train, ArraySplit | FolderSplit)


def preprocessing_of(data: Data, recipe: Recipe) -> Preprocessing | None:
    """How the data's pictures become inputs; None for Datasets that give tensors already."""
    if not gives_pictures(data):
        return None
    return data.preprocessing(recipe.normalize, image_size=recipe.image_size)


def eval_batch_size(data: Data) -> int:
    """Evaluation batches: large for small pictures, 64 for folders."""
    return 64 if isinstance(data.test, FolderSplit) else 500


def _augment(data: Data, recipe: Recipe) -> Augment | FolderAugment | None:
    if not gives_pictures(data):
        return None
    if isinstance(data.train, FolderSplit):
        return FolderAugment(crop=recipe.crop, flip=recipe.flip)
    return Augment(crop_padding=recipe.crop_padding, flip=recipe.flip, cutout=recipe.cutout)


def check_fit(model: nn.Module, inputs: Inputs, classes: int) -> None:
    """Run one input through the model: ModelError when shapes or class counts do not fit."""
    device = next(iter(model.parameters()), torch.empty(0)).device
    try:
        with evaluation_mode(model):
            logits = model(*(x[:2] for x in on_device(inputs, device)))
    except RuntimeError as error:
        raise ModelError(
            f"the model does not take this data ({str(error).splitlines()[0]})",
            got=f"inputs of shape {_shapes(inputs)}",
            hint=_shape_hint(inputs),
        ) from error
    if classes and logits.shape[-1] != classes:
        raise ModelError(
            "the model's class count does not fit the data",
            got=f"{logits.shape[-1]} scores",
            expected=f"{classes} classes",
            hint=f"Build it with {'vocab_size' if logits.ndim == 3 else 'num_classes'}={classes}.",
        )


def _shapes(inputs: Inputs) -> str:
    each = inputs if isinstance(inputs, tuple) else (inputs,)
    return " and ".join(str(tuple(x.shape[1:])) for x in each)


def _shape_hint(inputs: Inputs) -> str:
    if isinstance(inputs, tuple):
        return "Check max_length and vocab_size."
    return "Check in_channels and stem."


def _total(recipe: Recipe, batches_per_epoch: int) -> int:
    if recipe.iterations is not None:
        return recipe.iterations
    if not recipe.epochs:
        raise RecipeError("the recipe has no length", hint="Give iterations or epochs.")
    return max(1, math.ceil(recipe.epochs * batches_per_epoch))
