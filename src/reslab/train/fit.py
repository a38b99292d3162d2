"""Train a net by a recipe into a run folder, and go on where a run stopped.

run = reslab.fit(reslab.create_model("resnet20", num_classes=10), data="cifar10", recipe="paper")
run = reslab.resume("runs/r20")
"""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils.data import Dataset

from reslab import files
from reslab.data import SOURCES, Data, is_text, load_data, load_folder, load_text
from reslab.errors import DataError, RecipeError, RunError
from reslab.models.catalog import create_model, known_options
from reslab.models.weights import describe_model, load_weights, unwrap
from reslab.recipe import Recipe, load_recipe, write_recipe
from reslab.seeding import seed_everything
from reslab.train.observers import Observer
from reslab.train.run import RunFolder
from reslab.train.session import Run, Session, as_task

__all__ = ["as_data", "build_net", "data_of", "default_folder", "fit", "resume"]

_log = logging.getLogger("reslab")

DataLike: TypeAlias = str | Path | Data | tuple[Dataset[Any], Dataset[Any]]


def fit(
    model: nn.Module,
    data: DataLike | None = None,
    *,
    recipe: str | Path | Recipe = "quick",
    out: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
) -> Run:
    """Train `model` (any nn.Module that maps a batch to logits [N, classes]) into a run folder.

    `data` is a name, a folder of images, a `Data`, or a pair (train, test) of torch Datasets that
    give (tensor, label); without it, what the recipe names. `overrides` change single values of
    the recipe. `out` defaults to runs/MODEL-DATA-RECIPE-seedN. Ctrl-C saves the state and raises
    RunInterrupted; `resume` goes on.

    Raises RecipeError, DataError, ModelError (the model does not fit the data), RunError (the
    folder holds a run already), NonFiniteLossError, DiskError.
    """
    recipe = load_recipe(recipe).updated(overrides or {})
    loaded = data_of(recipe, data)
    model = unwrap(model)
    about = describe_model(model)
    recipe = dataclasses.replace(
        recipe, data=loaded.name, model=about["model"], model_options=about["options"]
    )
    folder = RunFolder(Path(out) if out is not None else default_folder(recipe, model))
    if folder.exists():
        _refuse_folder(folder, recipe)
    for sentence in recipe.without_effect:
        _log.warning("%s", sentence)
    session = Session(model, loaded, recipe, folder)
    with files.locked(folder.path):
        # The initial weights first: a run that is killed at once must not go on from others.
        session.checkpoints.save(session.state.state_dict(), 0)
        write_recipe(folder.path / "recipe.yaml", recipe)
        session.describe("running")
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
    loaded = data_of(recipe, data) if data is not None else _data_again(recipe)
    _check_sums(about, loaded)
    if model is None:
        if not recipe.model:
            raise RunError(
                f"the run in {folder} trains a net that reslab cannot build by name",
                hint="Give it again: reslab.resume(folder, model=net).",
            )
        model = build_net(recipe, loaded)
    if run_folder.is_finished():
        return _finished(run_folder, model)
    with _threads(about), files.locked(run_folder.path):
        session = Session(model, loaded, recipe, run_folder)
        state = session.checkpoints.load_latest(session.state.device)
        if state is None:
            raise RunError(
                f"{run_folder.checkpoints} holds no checkpoint, not even the first",
                hint="Start the run again in a new folder.",
            )
        session.state.load_state_dict(state)
        _compare_precision(about, session)
        session.describe("running")
        return session.run(observers)


def _compare_precision(about: dict[str, Any], session: Session) -> None:
    before, now = about["precision"], session.state.stepper.precision
    if before != now:
        _log.warning("the run was in %s and goes on in %s on this machine", before, now)


def _finished(folder: RunFolder, model: nn.Module) -> Run:
    load_weights(model, folder.weights)
    result = folder.result()
    assert result is not None, "a finished run has a result"
    return Run(folder=folder, model=model, result=result, curve=folder.curve())


def build_net(recipe: Recipe, data: Data) -> nn.Module:
    """The recipe's net for this data, its initial weights drawn from the recipe's seed."""
    if not recipe.model:
        raise RecipeError("the recipe names no model", hint="Give one; see `reslab models`.")
    shape = _shape_for(recipe, data)
    seed_everything(recipe.seed)
    net = create_model(recipe.model, **(shape | recipe.model_options))
    if recipe.weights:
        _log.info("%s: %s", recipe.weights, load_weights(net, recipe.weights, partial=True))
    return net


def _shape_for(recipe: Recipe, data: Data) -> dict[str, Any]:
    """Those options of the recipe's model that the data decides."""
    if not data.is_text:
        preprocessing = data.preprocessing(recipe.normalize, image_size=recipe.image_size)
        shape = {
            "num_classes": len(data.classes),
            "in_channels": preprocessing.channels,
            "image_size": preprocessing.size[0],
        }
    else:
        with torch.device("meta"):
            model = create_model(recipe.model, **recipe.model_options)
        read = as_task(data, model, recipe).train
        longest = max(x.shape[1] for x in read.inputs)
        shape = {
            "num_classes": len(data.classes) or 2,
            "vocab_size": read.vocabulary_size,
            "max_length": longest,
        }
    known = known_options(recipe.model)
    return {name: value for name, value in shape.items() if name in known}


def default_folder(recipe: Recipe, model: nn.Module) -> Path:
    """runs/MODEL-DATA-RECIPE-seedN, under the current folder."""
    name = recipe.model or type(model).__name__
    return Path("runs") / f"{name}-{Path(recipe.data).name}-{recipe.name}-seed{recipe.seed}"


def as_data(
    data: DataLike,
    *,
    bad_images: str = "fail",
    empty_classes: str = "error",
    vocabulary_size: int = 4096,
    tokenizer: str = "",
) -> Data:
    """Data by name or path, a Data as it is, or a pair of torch Datasets as one.

    `bad_images` and `empty_classes` are the recipe's choices for folders, `vocabulary_size` that for
    text files; a `tokenizer` (its JSON) is used instead of learning one.
    """
    if isinstance(data, Data):
        return data
    if isinstance(data, tuple):
        return Data(name="custom", classes=(), train=data[0], test=data[1], sums={})
    # Paths are made absolute, so that the run can be resumed and evaluated from anywhere.
    if str(data) not in SOURCES and is_text(data):
        return load_text(Path(data).resolve(), vocabulary_size=vocabulary_size, tokenizer=tokenizer)
    if str(data) not in SOURCES and Path(data).is_dir():
        return load_folder(Path(data).resolve(), bad_images=bad_images, empty=empty_classes)
    return load_data(str(data))


def data_of(recipe: Recipe, data: DataLike | None = None) -> Data:
    """The data that a recipe names, or `data`, under the recipe's policies for folders."""
    chosen = recipe.data if data is None else data
    return as_data(
        chosen,
        bad_images=recipe.bad_images,
        empty_classes=recipe.empty_classes,
        vocabulary_size=recipe.vocabulary_size,
    )


def _refuse_folder(folder: RunFolder, recipe: Recipe) -> None:
    folder.check_recipe(recipe)
    status = folder.about()["status"]
    raise RunError(
        f"{folder.path} holds this run already ({status})",
        hint=f"Go on with: reslab resume {folder.path}; or choose another --out.",
    )


def _data_again(recipe: Recipe) -> Data:
    if recipe.data not in SOURCES and not Path(recipe.data).exists():
        raise RunError(
            f"the run's data {recipe.data!r} is neither a known set nor a path here",
            hint="Give it again: reslab.resume(folder, data=...).",
        )
    return data_of(recipe)


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
