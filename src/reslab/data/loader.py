"""Batches in an order that depends on (seed, epoch) alone, so that a run can go on in mid-epoch.

    loader = build_train_loader(data.train, preprocessing=p, augment=a, batch_size=128, seed=0)
    for batch in loader.epoch(3, start=17): ...

Augmentation of arrays depends on (seed, epoch, batch), that of folders on (seed, epoch, sample);
the number of workers changes nothing.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reslab.data.augment import Augment, FolderAugment
from reslab.data.fetch import Fetch, eval_fetch, train_fetch
from reslab.data.folder import FolderSplit
from reslab.data.preprocess import Preprocessing
from reslab.data.tasks import count_scored
from reslab.data.views import check_view
from reslab.data.workers import Chunk, Inputs, Unreadable, usable_cores
from reslab.errors import DataError, UsageError
from reslab.seeding import stable_seed

__all__ = [
    "Batch",
    "EvalBatch",
    "EvalLoader",
    "TrainLoader",
    "build_eval_loader",
    "build_train_loader",
    "epoch_order",
]

_log = logging.getLogger("reslab")


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs float32 [N, C, H, W], normalised; targets int64 [N]; ids int64 [N], the samples.

    Text gives a tuple of ids int64 [N, ...] as inputs; its targets may be [N, T], -100 not scored.
    """

    inputs: Inputs
    targets: Tensor
    ids: Tensor

    @property
    def scored(self) -> int:
        """How many targets count."""
        return count_scored(self.targets)


@dataclass(frozen=True, eq=False)
class EvalBatch:
    """Views of the same samples, each float32 [N, C, H, W]; targets and ids int64 [N]."""

    views: tuple[Inputs, ...]
    targets: Tensor
    ids: Tensor

    @property
    def scored(self) -> int:
        """How many targets count."""
        return count_scored(self.targets)


def epoch_order(seed: int, epoch: int, count: int) -> Tensor:
    """The order of `count` samples in an epoch: a permutation, int64.

    >>> epoch_order(0, 1, 5).sort().values
    tensor([0, 1, 2, 3, 4])
    """
    generator = torch.Generator().manual_seed(stable_seed(seed, "order", epoch))
    return torch.randperm(count, generator=generator)


class TrainLoader:
    """Training batches; build it with `build_train_loader`.

    `notes` are sentences for the user about how the batches are formed. `skipped` are the reasons
    of the samples left out so far, where the split's policy is "skip".
    """

    def __init__(self, fetch: Fetch, ends: list[int], *, seed: int, policy: str) -> None:
        self._fetch, self._ends, self._seed = fetch, ends, seed
        self._gate = _Gate(policy)
        self.notes: list[str] = []

    @property
    def batches_per_epoch(self) -> int:
        """Batches in every epoch."""
        return len(self._ends)

    @property
    def skipped(self) -> list[str]:
        """Why samples were left out, one sentence each."""
        return list(self._gate.reasons.values())

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch from number `start` on, equal to those of an unbroken epoch."""
        if not 0 <= start <= self.batches_per_epoch:
            raise UsageError(
                "start is outside the epoch", got=start, expected=f"0 to {self.batches_per_epoch}"
            )
        order = epoch_order(self._seed, epoch, self._ends[-1])
        batches = list(order.split(_sizes(self._ends)))[start:]
        for chunk in self._fetch(epoch, batches, start):
            self._gate.check(chunk)
            if chunk.unreadable and len(chunk.ids) < 2:
                raise DataError(
                    "too many pictures of one batch cannot be read",
                    got=len(chunk.ids),
                    expected="2 or more that can",
                    hint="Remove those that `reslab data check` names.",
                )
            yield Batch(chunk.views[0], chunk.targets, chunk.ids)


class EvalLoader:
    """Every sample once, in order; build it with `build_eval_loader`."""

    def __init__(self, fetch: Fetch, batches: list[Tensor], *, policy: str) -> None:
        self._fetch, self._batches, self._gate = fetch, batches, _Gate(policy)

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def skipped(self) -> list[str]:
        """Why samples were left out, one sentence each."""
        return list(self._gate.reasons.values())

    def __iter__(self) -> Iterator[EvalBatch]:
        for chunk in self._fetch(0, self._batches, 0):
            self._gate.check(chunk)
            if len(chunk.ids):
                yield EvalBatch(chunk.views, chunk.targets, chunk.ids)


class _Gate:
    """What happens to samples that cannot be read: the first stops the run, or each is told once."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.reasons: dict[int, str] = {}

    def check(self, chunk: Chunk) -> None:
        for item in chunk.unreadable:
            self._meet(item)

    def _meet(self, item: Unreadable) -> None:
        if self.policy == "fail":
            raise DataError(item.reason)
        if item.id not in self.reasons:
            _log.warning("left out: %s", item.reason)
        self.reasons[item.id] = item.reason


def build_train_loader(
    split: Any,
    *,
    preprocessing: Preprocessing | None,
    augment: Augment | FolderAugment | None = None,
    batch_size: int,
    seed: int,
    workers: int = 0,
) -> TrainLoader:
    """Training batches of an `ArraySplit`, a `FolderSplit`, or any Dataset of (tensor, label).

    A Dataset is used as it is: no preprocessing, no augmentation. Arrays are read in this process,
    whatever `workers` says. A last batch of one sample joins the batch before, because batch norm
    needs two values; `notes` tells.

    Raises DataError for an empty split or too little shared memory, UsageError when the augmentation
    does not fit the split.
    """
    ends = _batch_ends(len(split), batch_size)
    _merge_single(ends, batch_size)
    fetch = train_fetch(
        split, preprocessing, augment=augment, seed=seed, largest=batch_size + 1, workers=workers
    )
    loader = TrainLoader(fetch, ends, seed=seed, policy=_policy(split))
    loader.notes += _notes(ends, batch_size, workers) + _left_out(split)
    return loader


def build_eval_loader(
    split: Any,
    *,
    preprocessing: Preprocessing | None,
    batch_size: int,
    workers: int = 0,
    view: str = "single",
) -> EvalLoader:
    """Every sample of the split once, in order, as views (see `views`).

    Multi-scale views of a folder have a size of their own, so they come one picture a batch.
    Raises DataError for an empty split, UsageError for an unknown view.
    """
    check_view(view)
    if view == "multi-scale" and isinstance(split, FolderSplit):
        batch_size = 1
    ends = _batch_ends(len(split), batch_size)
    fetch = eval_fetch(split, preprocessing, view=view, largest=batch_size, workers=workers)
    batches = list(torch.arange(len(split)).split(_sizes(ends)))
    return EvalLoader(fetch, batches, policy=_policy(split))


def _policy(split: Any) -> str:
    return split.bad_images if isinstance(split, FolderSplit) else "fail"


def _batch_ends(count: int, batch_size: int) -> list[int]:
    """Where each batch ends in the order of `count` samples."""
    if batch_size < 1:
        raise UsageError("batch_size is wrong", got=batch_size, expected="1 or more")
    if not count:
        raise DataError("the split is empty", expected="at least one sample")
    return [*range(batch_size, count, batch_size), count]


def _merge_single(ends: list[int], batch_size: int) -> None:
    """Let the batch before take a last batch of one sample."""
    if batch_size == 1:
        return
    if ends == [1]:
        raise DataError("the training split has one sample", expected="2 or more, for batch norm")
    if _sizes(ends)[-1] == 1:
        del ends[-2]


def _sizes(ends: list[int]) -> list[int]:
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def _left_out(split: Any) -> list[str]:
    """What a folder holds that is not used."""
    notes = []
    if isinstance(split, FolderSplit):
        if split.left_out:
            first = split.left_out[0]
            notes.append(
                f"{len(split.left_out)} files in {split.root} are not used, such as {first.path} "
                f"({first.reason})"
            )
        if split.hidden:
            notes.append(f"{split.hidden} hidden names in {split.root} are skipped")
    return notes


def _notes(ends: list[int], batch_size: int, workers: int) -> list[str]:
    notes = []
    last = _sizes(ends)[-1]
    if last > batch_size:
        notes.append(
            f"the last batch of an epoch has {last} samples instead of {batch_size} and 1, because "
            "batch norm needs more than one value"
        )
    if workers > usable_cores():
        notes.append(f"{workers} loader workers share {usable_cores()} processor cores")
    return notes
