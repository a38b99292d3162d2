"""Train a net by a recipe into a run folder, and go on where a run stopped.

run = reslab.fit(reslab.create_model("resnet20", num_classes=10), data="cifar10", recipe="paper")
run = reslab.resume("runs/r20")
"""

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from reslab.data import (
    Augment,
    Data,
    FolderAugment,
    FolderSplit,
    Preprocessing,
    build_eval_loader,
    build_train_loader,
    load_data,
)
from torch import nn
from torch.utils.data import Dataset

from reslab import files
from reslab.errors import DataError, ModelError, RecipeError, ReslabError, RunError
from reslab.models.catalog import create_model
from reslab.models.weights import save_weights
from reslab.recipe import Recipe, load_recipe, write_recipe
from reslab.records import CurvePoint, EvalResult, to_json
from reslab.seeding import seed_everything
from reslab.train.checkpoint import Checkpoints
from reslab.train.environment import describe_environment
from reslab.train.evaluate import evaluate_batches
from reslab.train.loop import Plan, RunInterrupted, train
from reslab.train.observers import JsonLines, Observer, TensorBoard
from reslab.train.precision import choose_device
from reslab.train.run import RunFolder
from reslab.train.state import TrainState

__all__ = ["Run", "build_net", "fit", "resume"]

_log = logging.getLogger("reslab")

DataLike: TypeAlias = "str | Path | Data | tuple[Dataset[Any], Dataset[Any]]"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished training: its folder, the net that was evaluated, its scores and its curve."""

    folder: RunFolder
    model: nn.Module
    result: EvalResult
    curve: tuple[CurvePoint, ...]


def fit(
    model: nn.Module,
    data: DataLike = "digits",
    *,
    recipe: str | Path | Recipe = "quick",
    out: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
) -> Run:
    """Train `model` (any nn.Module that maps a batch to logits [N, classes]) into a run folder.

    `data` is a name, a folder of images, a `Data`, or a pair (train, test) of torch Datasets that
    give (tensor, label). `overrides` change single values of the recipe. `out` defaults to
    runs/MODEL-DATA-RECIPE-seedN. Ctrl-C saves the state and raises RunInterrupted; `resume` goes on.

    Raises RecipeError, DataError, ModelError (the model does not fit the data), RunError (the
    folder holds a run already), NonFiniteLossError, DiskError.
    """
    recipe = load_recipe(recipe).updated(overrides or {})
    loaded = as_data(data)
    name = getattr(model, "name", "")
    recipe = dataclasses.replace(
        recipe, data=loaded.name, model=name, model_options=getattr(model, "options", {})
    )
    folder = RunFolder(Path(out) if out is not None else default_folder(recipe, model))
    if folder.exists():
        _refuse_folder(folder, recipe)
    for sentence in recipe.without_effect:
        _log.warning("%s", sentence)
    session = _Session(model, loaded, recipe, folder)
    with files.locked(folder.path):
        write_recipe(folder.path / "recipe.yaml", recipe)
        session.describe("running")
        session.checkpoints.save(session.state.state_dict(), 0)
        return session.run(observers)


def resume(
    folder: str | Path,
    *,
    model: nn.Module | None = None,
    data: DataLike | None = None,
    observers: Sequence[Observer] = (),
) -> Run:
    """Go on with the run in `folder` from its last whole checkpoint, in mid-epoch if need be.

    On the CPU the weights end up bit-equal to those of a run that was never stopped. Nets and data
    that reslab cannot build by name must be given again. A finished run is returned as it is.
    """
    run_folder = RunFolder(Path(folder))
    about = run_folder.about()
    recipe = run_folder.recipe()
    loaded = as_data(data) if data is not None else _data_again(recipe)
    _check_sums(about, loaded)
    if model is None:
        if not recipe.model:
            raise RunError(
                f"the run in {folder} trains a net that reslab cannot build by name",
                hint="Give it again: reslab.resume(folder, model=net).",
            )
        model = build_net(recipe, loaded)
    with _threads(about), files.locked(run_folder.path):
        session = _Session(model, loaded, recipe, run_folder)
        state = session.checkpoints.load_latest(session.state.device)
        if state is not None:
            session.state.load_state_dict(state)
        session.describe(about["status"] if run_folder.is_finished() else "running")
        return session.run(observers)


def build_net(recipe: Recipe, data: Data) -> nn.Module:
    """The recipe's net for this data, its initial weights drawn from the recipe's seed."""
    if not recipe.model:
        raise RecipeError("the recipe names no model", hint="Give one; see `reslab models`.")
    channels = data.preprocessing(recipe.normalize, image_size=recipe.image_size).channels
    shape = {"num_classes": len(data.classes), "in_channels": channels}
    seed_everything(recipe.seed)
    return create_model(recipe.model, **(shape | recipe.model_options))


def default_folder(recipe: Recipe, model: nn.Module) -> Path:
    """runs/MODEL-DATA-RECIPE-seedN, under the current folder."""
    name = recipe.model or type(model).__name__
    return Path("runs") / f"{name}-{Path(recipe.data).name}-{recipe.name}-seed{recipe.seed}"


def as_data(data: DataLike) -> Data:
    """Data by name or path, a Data as it is, or a pair of torch Datasets as one."""
    if isinstance(data, Data):
        return data
    if isinstance(data, tuple):
        return Data(name="custom", classes=(), train=data[0], test=data[1], sums={})
    return load_data(str(data))


class _Session:
    """One process's part of a run: everything set up, checked against each other, then run."""

    def __init__(self, model: nn.Module, data: Data, recipe: Recipe, folder: RunFolder) -> None:
        self.recipe, self.folder = recipe, folder
        self.data = data.hold_out(recipe.holdout, seed=recipe.seed) if recipe.holdout else data
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
        check_fit(self.state.model, next(iter(self.test)).views[0], len(self.data.classes))
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
        spec = getattr(self.state.model, "spec", None)
        return Plan(
            recipe=recipe,
            loader=self.loader,
            total=self.total,
            depth=spec.depth if spec is not None else 0,
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
        self._last = evaluate_batches(net, self.test, classes=self.data.classes)
        return self._last

    def keep(self, path: Path, net: nn.Module) -> None:
        """Write the net with everything needed to use it elsewhere."""
        preprocessing = self.preprocessing.to_json() if self.preprocessing else None
        save_weights(
            path,
            net,
            classes=list(self.data.classes),
            preprocessing=preprocessing,
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


def preprocessing_of(data: Data, recipe: Recipe) -> Preprocessing | None:
    """How the data's pictures become inputs; None for Datasets that give tensors already."""
    if data.name == "custom":
        return None
    return data.preprocessing(recipe.normalize, image_size=recipe.image_size)


def eval_batch_size(data: Data) -> int:
    """Evaluation batches: large for small pictures, 64 for folders."""
    return 64 if isinstance(data.test, FolderSplit) else 500


def _augment(data: Data, recipe: Recipe) -> Augment | FolderAugment | None:
    if data.name == "custom":
        return None
    if isinstance(data.train, FolderSplit):
        return FolderAugment(crop=recipe.crop, flip=recipe.flip)
    return Augment(crop_padding=recipe.crop_padding, flip=recipe.flip, cutout=recipe.cutout)


def check_fit(model: nn.Module, inputs: torch.Tensor, classes: int) -> None:
    """Run one input through the model: ModelError when shapes or class counts do not fit."""
    device = next(iter(model.parameters()), torch.empty(0)).device
    modes = [(module, module.training) for module in model.modules()]
    try:
        with torch.no_grad():
            logits = model.eval()(inputs[:2].to(device))
    except RuntimeError as error:
        raise ModelError(
            f"the model does not take this data ({str(error).splitlines()[0]})",
            got=f"inputs of shape {tuple(inputs.shape[1:])}",
            hint="Check in_channels and stem.",
        ) from error
    finally:
        for module, was_training in modes:
            module.training = was_training
    if classes and logits.shape[-1] != classes:
        raise ModelError(
            "the model's class count does not fit the data",
            got=f"{logits.shape[-1]} scores",
            expected=f"{classes} classes",
            hint=f"Build it with num_classes={classes}.",
        )


def _total(recipe: Recipe, batches_per_epoch: int) -> int:
    if recipe.iterations is not None:
        return recipe.iterations
    if not recipe.epochs:
        raise RecipeError("the recipe has no length", hint="Give iterations or epochs.")
    return max(1, math.ceil(recipe.epochs * batches_per_epoch))


def _refuse_folder(folder: RunFolder, recipe: Recipe) -> None:
    there = folder.recipe()
    changed = [k for k in Recipe.names() if getattr(there, k) != getattr(recipe, k)]
    if not changed:
        status = folder.about()["status"]
        raise RunError(
            f"{folder.path} holds this run already ({status})",
            hint=f"Go on with: reslab resume {folder.path}; or choose another --out.",
        )
    key = changed[0]
    raise RunError(
        f"{folder.path} holds a run of another recipe ({key} is {getattr(there, key)!r} there)",
        got=getattr(recipe, key),
        hint="Choose another --out.",
    )


def _data_again(recipe: Recipe) -> Data:
    if recipe.data == "custom":
        raise RunError(
            "the run's data was given as Datasets", hint="Give it again: resume(..., data=(...))."
        )
    return load_data(recipe.data)


def _check_sums(about: dict[str, Any], data: Data) -> None:
    for name, there in about["data_sums"].items():
        if data.sums.get(name, there) != there:
            raise DataError(
                f"the data changed since the run started: checksum of {name}",
                got=data.sums[name],
                expected=there,
            )


@contextlib.contextmanager
def _threads(about: dict[str, Any]) -> Iterator[None]:
    """As many threads as the run had: sums in another order would change the last bits."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(about["environment"]["threads"])
        yield
    finally:
        torch.set_num_threads(before)
