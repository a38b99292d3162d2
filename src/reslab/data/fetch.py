"""Where the batches of a loader come from: arrays in this process, everything else through a pool.

A fetch is called with the epoch, the sample ids of the batches to come, and the number of the first
of them in the epoch; it gives one `Chunk` for each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from reslab.data.augment import Augment, FolderAugment
from reslab.data.folder import FolderSplit
from reslab.data.preprocess import Preprocessing
from reslab.data.source import ArraySplit
from reslab.data.tasks import TokenSplit
from reslab.data.views import array_views
from reslab.data.workers import (
    Chunk,
    Collate,
    EvalPictures,
    Samples,
    TrainPictures,
    WorkerPool,
    check_shared_memory,
)
from reslab.errors import UsageError
from reslab.seeding import stable_seed

__all__ = ["Fetch", "eval_fetch", "train_fetch"]

# Pictures' worth of memory in the views of one sample; multi-scale has 18 for square pictures.
_VIEW_PIXELS = {"single": 1, "flip": 2, "ten-crop": 10, "multi-scale": 27}


class Fetch(Protocol):
    """Chunks for batches of sample ids, the first of them batch number `start` of the epoch."""

    def __call__(self, epoch: int, batches: Sequence[Tensor], start: int) -> Iterator[Chunk]:
        """One Chunk a batch, in order."""


@dataclass(frozen=True)
class _TrainArrays:
    split: ArraySplit
    preprocessing: Preprocessing
    augment: Augment
    seed: int

    def __call__(self, epoch: int, batches: Sequence[Tensor], start: int) -> Iterator[Chunk]:
        for number, ids in enumerate(batches, start):
            seed = stable_seed(self.seed, "augment", epoch, number)
            inputs = self.preprocessing.normalize(self.split.images[ids])
            inputs = self.augment(inputs, torch.Generator().manual_seed(seed))
            yield Chunk((inputs,), self.split.labels[ids], ids, ())


@dataclass(frozen=True)
class _EvalArrays:
    split: ArraySplit
    preprocessing: Preprocessing
    view: str

    def __call__(self, epoch: int, batches: Sequence[Tensor], start: int) -> Iterator[Chunk]:
        for ids in batches:
            inputs = self.preprocessing.normalize(self.split.images[ids])
            yield Chunk(array_views(inputs, self.view), self.split.labels[ids], ids, ())


@dataclass(frozen=True)
class _Tokens:
    split: TokenSplit
    seed: int

    def __call__(self, epoch: int, batches: Sequence[Tensor], start: int) -> Iterator[Chunk]:
        for number, ids in enumerate(batches, start):
            inputs, targets = self.split.batch(
                ids, seed=stable_seed(self.seed, "mask", epoch, number)
            )
            yield Chunk((inputs,), targets, ids, ())


def train_fetch(
    split: Any,
    preprocessing: Preprocessing | None,
    *,
    augment: Augment | FolderAugment | None,
    seed: int,
    largest: int,
    workers: int,
) -> Fetch:
    """Training batches of at most `largest` samples; UsageError when the parts do not fit."""
    if isinstance(split, ArraySplit):
        change = _fitting(augment or Augment(), Augment, "arrays")
        return _TrainArrays(split, _needed(preprocessing), change, seed)
    if isinstance(split, FolderSplit):
        crop = augment or FolderAugment(crop="center", flip=False)
        crop = _fitting(crop, FolderAugment, "folders")
        pictures = TrainPictures(split, _needed(preprocessing), crop, seed)
        check_shared_memory(workers, largest * _input_bytes(pictures.preprocessing))
        return WorkerPool(pictures, Collate(pictures.preprocessing), workers, stays=True)
    if isinstance(split, TokenSplit):
        return _Tokens(split, seed)
    if augment is not None:
        raise UsageError("a Dataset of tensors is used as it is", got=augment, expected="None")
    return WorkerPool(Samples(split, seed), Collate(None), workers, stays=True)


def eval_fetch(
    split: Any, preprocessing: Preprocessing | None, *, view: str, largest: int, workers: int
) -> Fetch:
    """Evaluation batches of at most `largest` samples, in the given view."""
    if isinstance(split, ArraySplit):
        return _EvalArrays(split, _needed(preprocessing), view)
    if isinstance(split, FolderSplit):
        pictures = EvalPictures(split, _needed(preprocessing), view)
        size = largest * _VIEW_PIXELS[view] * _input_bytes(pictures.preprocessing)
        check_shared_memory(workers, size)
        return WorkerPool(pictures, Collate(pictures.preprocessing), workers)
    if isinstance(split, TokenSplit):
        return _Tokens(split, 0)
    return WorkerPool(Samples(split, 0), Collate(None, view), workers)


def _fitting(augment: Any, kind: type, what: str) -> Any:
    if not isinstance(augment, kind):
        raise UsageError(
            f"this augmentation is not for {what}",
            got=type(augment).__name__,
            expected=kind.__name__,
        )
    return augment


def _needed(preprocessing: Preprocessing | None) -> Preprocessing:
    if preprocessing is None:
        raise UsageError("pictures need a preprocessing", hint="data.preprocessing() gives one.")
    return preprocessing


def _input_bytes(preprocessing: Preprocessing) -> int:
    height, width = preprocessing.size
    return 4 * preprocessing.channels * height * width
