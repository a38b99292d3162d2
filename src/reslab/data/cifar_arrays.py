"""What every form of CIFAR decodes to, and the checks on its arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

from reslab.data.source import ArraySplit
from reslab.errors import DataError

__all__ = ["PIXELS", "SIDE", "CifarLayout", "Decoded", "image_rows", "join", "label_row"]

SIDE = 32
PIXELS = SIDE * SIDE


@dataclass(frozen=True, kw_only=True)
class CifarLayout:
    """How the official files of one CIFAR are called and laid out.

    `label_bytes` of a binary row precede its pixels and the last of them is the label; `meta` and
    `meta_key` are where the python version keeps the class names, `names_file` the binary one.
    """

    train_files: tuple[str, ...]
    test_file: str
    label_key: str
    label_bytes: int
    meta: str
    meta_key: str
    names_file: str


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """Both splits in the source's order, which is the official one except for single pictures.

    `files` are the official python files as read, for their checksums; empty for other forms.
    """

    train: ArraySplit
    test: ArraySplit
    classes: tuple[str, ...] = ()
    is_ordered: bool = True
    files: Mapping[str, bytes] = field(default_factory=dict)


def image_rows(data: object, where: str) -> np.ndarray:
    """Images as [N, 3, 32, 32], from [N, 3072], channels first, or channels last."""
    array = np.asarray(data)
    if array.dtype == np.uint8:
        if array.ndim == 2 and array.shape[1] == 3 * PIXELS:
            return array.reshape(-1, 3, SIDE, SIDE)
        if array.shape[1:] == (3, SIDE, SIDE):
            return array
        if array.shape[1:] == (SIDE, SIDE, 3):
            return array.transpose(0, 3, 1, 2)
    raise DataError(
        f"the images in {where} have another form",
        got=f"{array.dtype} {array.shape}",
        expected="uint8 (N, 32, 32, 3), (N, 3, 32, 32) or (N, 3072)",
    )


def label_row(data: object, where: str) -> np.ndarray:
    """Labels as uint8 [N]; DataError, naming `where`, when they are no whole numbers up to 255."""
    try:
        array = np.asarray(data).reshape(-1)
        if array.dtype.kind not in "iu" or array.min() < 0 or array.max() > 255:
            raise ValueError(f"{array.dtype} from {array.min()} to {array.max()}")
    except (ValueError, TypeError) as error:
        raise DataError(
            f"the labels in {where} have another form ({error})", expected="whole numbers from 0"
        ) from error
    return array.astype(np.uint8)


def join(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    *,
    classes: tuple[str, ...] = (),
    is_ordered: bool = True,
    files: Mapping[str, bytes] | None = None,
) -> Decoded:
    """A Decoded of (images, labels) of both splits; DataError when their lengths differ."""
    return Decoded(
        train=split_of(*train),
        test=split_of(*test),
        classes=classes,
        is_ordered=is_ordered,
        files=files or {},
    )


def split_of(images: np.ndarray, labels: np.ndarray) -> ArraySplit:
    """The arrays as tensors, copied only where they are not writable or not in C order."""
    pixels = torch.from_numpy(np.require(images, requirements=["C", "W"]))
    return ArraySplit(pixels, torch.from_numpy(labels.astype(np.int64)))
