"""Reading samples one by one, in this process or in loader processes.

Everything that crosses to a worker is a module-level class, so fork and spawn both work. A worker
never raises for a bad picture: it sends back the reason, and the loader in the main process fails or
leaves the sample out. Random draws depend on (seed, epoch, sample) alone, for foreign Datasets on
(seed, epoch, first sample of the batch).
"""

import contextlib
import os
import random
import shutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from reslab.data.augment import FolderAugment
from reslab.data.folder import FolderSplit
from reslab.data.picture import open_image
from reslab.data.preprocess import Preprocessing
from reslab.data.views import array_views, picture_views
from reslab.errors import DataError
from reslab.seeding import stable_seed

__all__ = [
    "Chunk",
    "Collate",
    "EvalPictures",
    "Inputs",
    "Samples",
    "TrainPictures",
    "Unreadable",
    "WorkerPool",
    "check_shared_memory",
    "usable_cores",
]

_PREFETCH = 2
_TIMEOUT_SECONDS = 300.0
_SHARED_MEMORY = Path("/dev/shm")
_GIB = 2**30

Place = tuple[int, int]  # epoch, sample
Inputs = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True)
class Unreadable:
    """A sample that could not be read, and the sentence that says so."""

    id: int
    reason: str


@dataclass(frozen=True)
class Sample:
    """One sample's views, pixels uint8 or finished float tensors, each [C, H, W]."""

    views: tuple[Tensor, ...]
    target: int
    id: int


@dataclass(frozen=True)
class Chunk:
    """Samples put together: views [N, ...], targets and ids int64 [N], and those left out.

    Text has one view, the tuple of the net's inputs, and targets int64 [N] or [N, T].
    """

    views: tuple[Inputs, ...]
    targets: Tensor
    ids: Tensor
    unreadable: tuple[Unreadable, ...]


@contextlib.contextmanager
def _torch_seeded(seed: int) -> Iterator[None]:
    """Torch's global generator on the CPU seeded, and put back afterwards."""
    state = torch.get_rng_state()
    try:
        # Not torch.manual_seed: that would seed the accelerators too.
        torch.default_generator.manual_seed(seed)
        yield
    finally:
        torch.set_rng_state(state)


@contextlib.contextmanager
def _all_seeded(seed: int) -> Iterator[None]:
    """The global generators of torch, numpy and Python seeded, and put back afterwards (0.1 ms)."""
    states = np.random.get_state(), random.getstate()
    try:
        np.random.seed(seed % 2**32)
        random.seed(seed)
        with _torch_seeded(seed):
            yield
    finally:
        np.random.set_state(states[0])
        random.setstate(states[1])


@dataclass(frozen=True, eq=False)
class TrainPictures(Dataset[Any]):
    """Pictures of a folder, augmented."""

    split: FolderSplit
    preprocessing: Preprocessing
    augment: FolderAugment
    seed: int

    def __getitem__(self, place: Place) -> Sample | Unreadable:
        epoch, index = place
        try:
            path = self.split.root / self.split.files[index]
            image = open_image(path, self.preprocessing.channels)
        except DataError as error:
            return Unreadable(index, str(error))
        with _torch_seeded(stable_seed(self.seed, "augment", epoch, index)):
            pixels = self.augment(image, self.preprocessing)
        return Sample((pixels,), int(self.split.labels[index]), index)


@dataclass(frozen=True, eq=False)
class EvalPictures(Dataset[Any]):
    """Pictures of a folder as they are, in one or several views."""

    split: FolderSplit
    preprocessing: Preprocessing
    view: str

    def __getitem__(self, place: Place) -> Sample | Unreadable:
        index = place[1]
        path = self.split.root / self.split.files[index]
        try:
            image = open_image(path, self.preprocessing.channels)
        except DataError as error:
            return Unreadable(index, str(error))
        views = picture_views(image, self.preprocessing, self.view)
        return Sample(views, int(self.split.labels[index]), index)


@dataclass(frozen=True, eq=False)
class Samples(Dataset[Any]):
    """Any map-style Dataset of (tensor, label), its random draws fixed by (seed, epoch, batch)."""

    dataset: Any
    seed: int

    def __getitem__(self, place: Place) -> Sample | Unreadable:
        return self.__getitems__([place])[0]

    def __getitems__(self, places: Sequence[Place]) -> list[Sample | Unreadable]:
        # The loader asks for whole batches. Seeding each sample would be slow for small tensors.
        with _all_seeded(stable_seed(self.seed, "augment", *places[0])):
            return [self._sample(index) for _, index in places]

    def _sample(self, index: int) -> Sample | Unreadable:
        item = self.dataset[index]
        try:
            inputs, target = item
            return Sample((torch.as_tensor(inputs),), int(target), index)
        except (TypeError, ValueError, RuntimeError) as error:
            reason = f"sample {index} of the Dataset is no (tensor, label): {error}"
            return Unreadable(index, reason)


@dataclass(frozen=True)
class Collate:
    """Samples to a Chunk, pixels normalised; runs in the worker."""

    preprocessing: Preprocessing | None
    view: str = "single"

    def __call__(self, items: Sequence[Sample | Unreadable]) -> Chunk:
        """The good samples as one Chunk; the others as its `unreadable`."""
        good = [item for item in items if isinstance(item, Sample)]
        bad = tuple(item for item in items if isinstance(item, Unreadable))
        targets = torch.tensor([item.target for item in good], dtype=torch.int64)
        ids = torch.tensor([item.id for item in good], dtype=torch.int64)
        try:
            views = tuple(map(torch.stack, zip(*(item.views for item in good), strict=True)))
        except RuntimeError as error:
            reason = f"samples of a batch have different shapes ({error})"
            return Chunk((), targets, ids, (*bad, Unreadable(good[0].id, reason)))
        return Chunk(self._finish(views), targets, ids, bad)

    def _finish(self, views: tuple[Tensor, ...]) -> tuple[Inputs, ...]:
        if self.preprocessing is not None:
            return tuple(map(self.preprocessing.normalize, views))
        return array_views(views[0].float(), self.view) if views else ()


class _Order:
    """The batches still to come, as the DataLoader's batch sampler; refilled every epoch."""

    def __init__(self) -> None:
        self.epoch = 0
        self.batches: Sequence[Tensor] = ()

    def __iter__(self) -> Iterator[list[Place]]:
        epoch = self.epoch
        return ([(epoch, i) for i in ids.tolist()] for ids in self.batches)

    def __len__(self) -> int:
        return len(self.batches)


class WorkerPool:
    """Reads batches of samples with `workers` processes (0: in this one), in the order asked for.

    Processes use one thread each; with `stays` they live on between epochs.
    """

    def __init__(
        self, dataset: Dataset[Any], collate: Collate, workers: int, *, stays: bool = False
    ) -> None:
        self._order = _Order()
        # A generator of its own: otherwise every epoch would draw from torch's global one.
        self._generator = torch.Generator()
        with warnings.catch_warnings():
            # The loader's notes say it in fewer words.
            warnings.filterwarnings("ignore", "This DataLoader will create")
            self._loader: DataLoader[Any] = DataLoader(
                dataset,
                batch_sampler=self._order,
                collate_fn=collate,
                generator=self._generator,
                num_workers=workers,
                timeout=_TIMEOUT_SECONDS if workers else 0,
                prefetch_factor=_PREFETCH if workers else None,
                persistent_workers=stays and workers > 0,
            )

    def __call__(self, epoch: int, batches: Sequence[Tensor], start: int) -> Iterator[Chunk]:
        """One Chunk for each tensor of sample ids; DataError with advice when workers fail."""
        self._order.epoch, self._order.batches = epoch, batches
        self._generator.manual_seed(epoch)
        try:
            yield from self._loader
        except RuntimeError as error:
            advice = _advice(str(error))
            if advice is None:
                raise
            reason = str(error).splitlines()[0]
            raise DataError(f"the data loader stopped ({reason})", hint=advice) from error


def _advice(message: str) -> str | None:
    if "timed out" in message:
        return "A worker gave nothing for minutes: a slow or dead disk? Try workers=0 to see where."
    if "shared memory" in message or "Bus error" in message:
        return "Shared memory ran out: fewer workers, a smaller batch, or a larger /dev/shm."
    if "exited unexpectedly" in message or "killed by signal" in message:
        return "A worker was killed, most often for lack of memory: try fewer workers."
    return None


def check_shared_memory(workers: int, batch_bytes: int, *, folder: Path = _SHARED_MEMORY) -> None:
    """DataError when the batches that `workers` prepare ahead do not fit into shared memory.

    Systems without /dev/shm have no such limit.
    """
    if not workers or not folder.is_dir():
        return
    needed, free = (workers * _PREFETCH + 1) * batch_bytes, shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{folder} is too small for {workers} workers",
            got=f"{free / _GIB:.2f} GiB free",
            expected=f"{needed / _GIB:.2f} GiB",
            hint="Use fewer workers or a smaller batch; in a container, start it with a larger "
            "--shm-size.",
        )


def usable_cores() -> int:
    """Processor cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
