"""Data sets by name or path: what a `Data` is, and `load_data`.

    data = load_data("digits")
    data = load_data("path/to/folder")

One module a source registers itself in `SOURCES`. Nothing here knows of models.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Subset

from reslab.data.preprocess import Preprocessing, imagenet_preprocessing
from reslab.errors import DataError, UnknownNameError, UsageError
from reslab.registry import Registry, close_names

__all__ = ["SOURCES", "ArraySplit", "Data", "Source", "array_sums", "load_data"]

_CHUNK = 4096
_LEVELS = 256


@dataclass(frozen=True, eq=False)
class ArraySplit:
    """Pictures in memory: uint8 [N, C, H, W], with labels int64 [N]."""

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            found = f"{self.images.dtype} {tuple(self.images.shape)}"
            raise DataError("images are wrong", got=found, expected="uint8 [N, C, H, W]")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            found = f"{self.labels.dtype} {tuple(self.labels.shape)}"
            raise DataError("labels are wrong", got=found, expected=f"int64 [{len(self.images)}]")

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Tensor) -> "ArraySplit":
        """The samples at these positions, copied."""
        return ArraySplit(self.images[indices], self.labels[indices])


@dataclass(frozen=True, eq=False)
class Data:
    """A data set: names of its classes, a training and a test split, and checksums.

    Splits are `ArraySplit`, `FolderSplit`, those of `text`, or any torch Dataset of (tensor, label).
    `tokenizer` is the JSON of the tokenizer that made the ids of a text.
    """

    name: str
    classes: tuple[str, ...]
    train: Any
    test: Any
    sums: Mapping[str, str]
    tokenizer: str = ""

    @property
    def is_text(self) -> bool:
        """Whether the samples are token ids."""
        return bool(self.tokenizer)

    def preprocessing(self, normalize: str = "mean_std", *, image_size: int = 224) -> Preprocessing:
        """How these pictures become inputs; statistics come from the training split alone.

        `normalize` is "mean_std" (each channel) or "pixel_mean" (subtract the mean picture, as the
        2015 paper does on CIFAR). Folders of pictures take ImageNet's channel statistics, a shorter
        side of image_size / 0.875 and a centre crop of `image_size`; arrays keep their own size.
        """
        if normalize not in ("mean_std", "pixel_mean"):
            raise UsageError(
                "normalize is unknown", got=normalize, expected="mean_std or pixel_mean"
            )
        if isinstance(self.train, ArraySplit):
            return _array_preprocessing(self.train.images, normalize)
        if not hasattr(self.train, "files"):
            raise UsageError("a torch Dataset of tensors brings its own preprocessing")
        if normalize == "pixel_mean":
            raise UsageError(
                "folders of pictures have no mean picture",
                got=normalize,
                expected="mean_std (ImageNet's channel statistics)",
            )
        return imagenet_preprocessing(image_size)

    def hold_out(self, count: int, *, seed: int) -> "Data":
        """The data with `count` training samples, drawn by `seed`, taken out as the test split.

        The real test split is not in the result, so a choice made with it is no leak.
        """
        total = len(self.train)
        if not 0 < count < total:
            raise DataError(
                "the hold-out is too large", got=count, expected=f"1 to {total - 1} samples"
            )
        order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
        held, kept = order[:count].sort().values, order[count:].sort().values
        return dataclasses.replace(
            self, train=_subset(self.train, kept), test=_subset(self.train, held)
        )


def _subset(split: Any, indices: Tensor) -> Any:
    if hasattr(split, "subset"):
        return split.subset(indices)
    return Subset(split, indices.tolist())


def _array_preprocessing(images: Tensor, normalize: str) -> Preprocessing:
    if not len(images):
        raise DataError("the training split is empty")
    channels, *size = images.shape[1:]
    mean, std = _pixel_mean(images) if normalize == "pixel_mean" else _mean_std(images)
    return Preprocessing(channels=channels, size=(size[0], size[1]), mean=mean, std=std)


def _mean_std(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and population deviation of each channel over 255, exact, from counts of pixel values.

    0.2 s for CIFAR's 50,000 training pictures on one core; summing squares took 2 s.
    """
    counts = torch.zeros(images.shape[1], _LEVELS, dtype=torch.int64)
    for part in images.split(_CHUNK):
        for channel, row in enumerate(counts):
            row += torch.bincount(part[:, channel].flatten(), minlength=_LEVELS)
    weights = counts.double() / counts.sum(1, keepdim=True)
    levels = torch.arange(_LEVELS, dtype=torch.float64) / (_LEVELS - 1)
    mean = weights @ levels
    std = (weights * (levels - mean[:, None]).square()).sum(1).sqrt()
    # A constant channel has no deviation; dividing by 1 leaves it at zero.
    return tuple(mean.tolist()), tuple(torch.where(std > 0, std, 1.0).tolist())


def _pixel_mean(images: Tensor) -> tuple[Any, tuple[float, ...]]:
    # A part's sums stay below 2**24, so float32 holds them exactly, ten times as fast as integers.
    sums = sum(part.float().sum(0).double() for part in images.split(_CHUNK))
    mean = torch.as_tensor(sums) / len(images) / (_LEVELS - 1)
    nested = tuple(tuple(tuple(row) for row in plane) for plane in mean.tolist())
    return nested, (1.0,) * images.shape[1]


def array_sums(train: ArraySplit, test: ArraySplit) -> dict[str, str]:
    """SHA-256 of the bytes, in C order, of images as [N, H, W, C] and labels as uint8.

    Keys: train_images, train_labels, test_images, test_labels.
    """
    sums = {}
    for name, split in (("train", train), ("test", test)):
        sums[f"{name}_images"] = _sha256(split.images.permute(0, 2, 3, 1))
        sums[f"{name}_labels"] = _sha256(split.labels.to(torch.uint8))
    return sums


def _sha256(array: Tensor) -> str:
    return hashlib.sha256(array.contiguous().numpy().data).hexdigest()


@dataclass(frozen=True)
class Source:
    """A named data set: one line about it, and `load(root, download)`."""

    summary: str
    load: Callable[[Path | None, bool], Data]


SOURCES = Registry[Source]("data set")


def load_data(
    name_or_path: str | Path,
    *,
    root: str | Path | None = None,
    download: bool = False,
    bad_images: str = "fail",
) -> Data:
    """A data set by name (`SOURCES.names()`), a folder with one sub-folder a class, or text files.

    `root` is where downloaded sets are kept (default: this user's cache folder); `bad_images`
    ("fail" or "skip") is for folders, whose other options `load_folder` has. Raises
    UnknownNameError for a name that is neither, DataError when the set is not there or damaged.

    >>> len(load_data("digits").train)
    1437
    """
    name = str(name_or_path)
    if name in SOURCES:
        return SOURCES.get(name).load(Path(root) if root else None, download)
    if Path(name_or_path).exists():
        from reslab.data.folder import load_folder
        from reslab.data.text_files import is_text, load_text

        if is_text(name_or_path):
            return load_text(name_or_path)
        return load_folder(name_or_path, bad_images=bad_images)
    raise UnknownNameError(
        f"unknown data set {name!r}",
        hint=f"{close_names(name, SOURCES.names())} A path to pictures or text works too.",
    )
