"""A trained net with what is needed to use it: its classes and how pictures become its inputs.

trained = load_trained("runs/r56")                      # a run folder or a reslab weights file
trained = load_trained("resnet20.th", model="resnet20")  # other people's weights
reslab.evaluate(trained, "cifar10").top1_accuracy
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from reslab.data import Data, EvalBatch, FolderSplit, Preprocessing, build_eval_loader
from reslab.errors import DataError, WeightsError
from reslab.models.catalog import create_model, task_of
from reslab.models.weights import LoadReport, load_model, load_weights, read_metadata
from reslab.recipe import Recipe
from reslab.records import EvalResult
from reslab.train.fit import DataLike, as_data
from reslab.train.precision import choose_device
from reslab.train.run import RunFolder
from reslab.train.session import (
    as_task,
    check_fit,
    eval_batch_size,
    first_batch,
    gives_pictures,
    score,
    scores_of,
)

__all__ = ["Trained", "evaluate", "load_trained"]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A net in evaluation mode, its class names and its preprocessing, where known."""

    model: nn.Module
    classes: tuple[str, ...] = ()
    preprocessing: Preprocessing | None = None
    mean_std: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    tokenizer: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    report: LoadReport | None = None


def load_trained(
    source: str | Path,
    *,
    model: str | None = None,
    model_options: Mapping[str, Any] | None = None,
    trust_pickle: bool = False,
) -> Trained:
    """The net of a run folder, of a reslab weights file, or of other people's weights.

    The last kind does not say which net it is of: `model` names it. Raises WeightsError.
    """
    path = Path(source)
    if path.is_dir():
        path = _weights_in(RunFolder(path))
    if model is None:
        return _ours(path)
    net = create_model(model, **(model_options or {}))
    report = load_weights(net, path, trust_pickle=trust_pickle)
    known = report.mean is not None and report.std is not None
    return Trained(
        model=net.eval(),
        mean_std=(report.mean, report.std) if known else None,  # type: ignore[arg-type]
        report=report,
        **_about(report.metadata),
    )


def _weights_in(run: RunFolder) -> Path:
    run.about()
    for path in (run.weights, run.best):
        if path.is_file():
            return path
    raise WeightsError(
        f"{run.path} has no weights yet", hint=f"Finish it first: reslab resume {run.path}"
    )


def _ours(path: Path) -> Trained:
    net = load_model(path)
    return Trained(model=net, **_about(read_metadata(path)))


def _about(metadata: Mapping[str, Any]) -> dict[str, Any]:
    preprocessing = metadata.get("preprocessing")
    return {
        "classes": tuple(metadata.get("classes", ())),
        "preprocessing": Preprocessing.from_json(preprocessing) if preprocessing else None,
        "tokenizer": metadata.get("tokenizer", ""),
        "recipe": metadata.get("recipe", {}),
    }


def evaluate(
    model: nn.Module | Trained,
    data: DataLike,
    *,
    view: str = "single",
    preprocessing: Preprocessing | None = None,
    image_size: int = 224,
    device: str = "auto",
) -> EvalResult:
    """Score a net on the test split of `data`, in fp32.

    Preprocessing is the one given, else the one that travels with the weights, else the one their
    publisher used, else the statistics of the data's training split. Class names of weights and
    data are matched by name. `image_size` is the input's side where folders of pictures meet weights
    that do not say. Views: single, flip, ten-crop, multi-scale.
    """
    trained = model if isinstance(model, Trained) else Trained(model=model)
    policies = ("bad_images", "empty_classes")
    chosen = {k: trained.recipe[k] for k in policies if k in trained.recipe}
    loaded = as_data(data, tokenizer=trained.tokenizer, **chosen)
    loaded = as_task(loaded, trained.model, Recipe().updated(trained.recipe))
    if preprocessing is None:
        preprocessing = _preprocessing_for(trained, loaded, image_size)
    loader = build_eval_loader(
        loaded.test,
        preprocessing=preprocessing,
        batch_size=eval_batch_size(loaded),
        workers=2 if isinstance(loaded.test, FolderSplit) else 0,
        view=view,
    )
    net = trained.model.to(choose_device(device))
    batches: Iterable[EvalBatch] = loader
    classes = loaded.classes
    if trained.classes and classes and trained.classes != classes:
        batches = _renumbered(loader, classes, trained.classes)
        classes = trained.classes
    check_fit(net, first_batch(loader).views[0], len(classes) or scores_of(loaded))
    return score(net, batches, task=task_of(net), classes=classes, view=view)


def _preprocessing_for(trained: Trained, data: Data, image_size: int) -> Preprocessing | None:
    if trained.preprocessing is not None or not gives_pictures(data):
        return trained.preprocessing
    own = data.preprocessing("mean_std", image_size=image_size)
    if trained.mean_std is None:
        return own
    mean, std = trained.mean_std
    if len(std) != own.channels:
        raise DataError(
            f"these weights take pictures of {len(std)} channels and {data.name} has {own.channels}",
            hint="Give --mean and --std with one value a channel, or build with in_channels.",
        )
    return dataclasses.replace(own, mean=mean, std=std)


def _renumbered(
    batches: Iterable[EvalBatch], theirs: tuple[str, ...], ours: tuple[str, ...]
) -> Iterator[EvalBatch]:
    unknown = [name for name in theirs if name not in ours]
    if unknown:
        raise DataError(
            "the data has classes that the net was not trained on",
            got=unknown[:5],
            expected=f"some of {', '.join(ours[:10])}",
        )
    numbers = torch.tensor([ours.index(name) for name in theirs])
    for batch in batches:
        yield dataclasses.replace(batch, targets=numbers[batch.targets])
