"""Folders of pictures: one sub-folder a class, under train/ and val/, or all together.

    data = load_folder("path/to/folder")

Class names come from the training split and the validation split is matched by name. What is left
out is kept with its reason in `FolderSplit.left_out`. Whether the pictures can be decoded is found
when they are read, or beforehand by `reslab data check`.
"""

import functools
import hashlib
import os
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from reslab.data.picture import UNREADABLE, open_image
from reslab.data.source import Data
from reslab.errors import DataError, UsageError
from reslab.registry import close_names

__all__ = [
    "FolderSplit",
    "LeftOut",
    "Listing",
    "divide",
    "find_parts",
    "list_pictures",
    "load_folder",
]

TRAIN_NAMES = ("train", "training")
VAL_NAMES = ("val", "valid", "validation", "test", "testing")
Pictures = Mapping[str, tuple[str, ...]]
_HIDDEN = {"thumbs.db", "desktop.ini", "__macosx", "__pycache__", "$recycle.bin"}


@dataclass(frozen=True)
class LeftOut:
    """A file that is not used, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Listing:
    """What lies under one folder of class folders.

    `pictures` maps each class name to the files in it, relative to the folder and sorted; a class
    without pictures has an empty tuple. `hidden` counts names that are skipped by rule.
    """

    root: Path
    pictures: dict[str, tuple[str, ...]]
    left_out: tuple[LeftOut, ...]
    hidden: int


@dataclass(frozen=True, eq=False)
class FolderSplit(Dataset[Any]):
    """One split of a folder: a torch Dataset of (upright RGB picture, label).

    `files` are relative to `root`; `labels` is int64 [N], positions in `classes`. `bad_images` says
    what loaders do with a picture that cannot be read: "fail", naming it, or "skip": leave that
    sample out and tell.
    """

    root: Path
    files: tuple[str, ...]
    labels: Tensor
    classes: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    hidden: int = 0
    bad_images: str = "fail"

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return open_image(self.root / self.files[index], 3), int(self.labels[index])

    def subset(self, indices: Tensor) -> "FolderSplit":
        """The samples at these positions."""
        files = tuple(self.files[i] for i in indices.tolist())
        return replace(self, files=files, labels=self.labels[indices])


def load_folder(
    path: str | Path,
    *,
    test_fraction: float = 0.2,
    seed: int = 0,
    empty: str = "error",
    bad_images: str = "fail",
) -> Data:
    """The pictures under `path` as a `Data` of two `FolderSplit`.

    With train/ beside val/ (or valid/, validation/, test/; the first of these that is there) these
    are the splits. Otherwise the class folders under train/ or `path` itself are split: in each
    class the `test_fraction` of the files whose names hash lowest with `seed` is the test.
    `empty` says what a training class without pictures is: "error", "keep" or "drop".

    Raises DataError for no pictures, an empty class, or classes that only the test split has.
    """
    _check_choice("empty", empty, ("error", "keep", "drop"))
    _check_choice("bad_images", bad_images, ("fail", "skip"))
    if not 0 < test_fraction < 1:
        raise UsageError("test_fraction is wrong", got=test_fraction, expected="between 0 and 1")
    home = Path(path)
    train_home, test_home = find_parts(home)
    train = list_pictures(train_home)
    classes = _training_classes(train, empty)
    if test_home is None:
        parts = divide(train.pictures, test_fraction, seed=seed)
        splits = [_split(train, part, classes, bad_images) for part in parts]
    else:
        test = list_pictures(test_home)
        _check_test_classes(test, classes)
        splits = [_split(part, part.pictures, classes, bad_images) for part in (train, test)]
    if not splits[1].files:
        raise DataError(f"there are no test pictures in {test_home or home}")
    sums = {name: _names_sum(s) for name, s in zip(("train", "test"), splits, strict=True)}
    return Data(str(path), classes, splits[0], splits[1], sums)


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{name} is unknown", got=value, expected=f"one of {', '.join(known)}")


def find_parts(home: Path) -> tuple[Path, Path | None]:
    """The folders of training and test classes; None where one folder is to be split.

    Upper and lower case are the same, and a folder called train that has no folders in it is a
    class like others. Raises DataError when `home` is no folder.
    """
    if not home.is_dir():
        found = "a file" if home.exists() else "nothing there"
        raise DataError(f"{home} is not a folder of pictures", got=found)
    parts = {p.name.lower(): p for p in sorted(home.iterdir()) if p.is_dir() and _has_folders(p)}
    train = next((parts[name] for name in TRAIN_NAMES if name in parts), None)
    if train is None:
        return home, None
    return train, next((parts[name] for name in VAL_NAMES if name in parts), None)


def _has_folders(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(entry.is_dir() and not is_hidden(entry.name) for entry in entries)


def list_pictures(root: Path) -> Listing:
    """All pictures under the class folders of `root`; DataError when there is no class folder."""
    pictures: dict[str, tuple[str, ...]] = {}
    left_out: list[LeftOut] = []
    hidden = 0
    for entry in sorted(os.scandir(root), key=lambda e: e.name):
        if is_hidden(entry.name):
            hidden += 1
        elif not entry.is_dir():
            left_out.append(LeftOut(entry.name, "not in a class folder"))
        else:
            found, refused, skipped = _scan(root, entry.name)
            name = unicodedata.normalize("NFC", entry.name)
            pictures[name] = tuple(sorted((*pictures.get(name, ()), *found)))
            left_out += refused
            hidden += skipped
    if not pictures:
        raise DataError(f"{root} has no class folders", expected="one sub-folder a class")
    return Listing(root, pictures, tuple(left_out), hidden)


def is_hidden(name: str) -> bool:
    """Whether a name belongs to an editor or operating system rather than to the data."""
    return name.startswith(".") or name.lower() in _HIDDEN


def _scan(root: Path, name: str) -> tuple[list[str], list[LeftOut], int]:
    found: list[str] = []
    refused: list[LeftOut] = []
    hidden = 0
    for folder, folders, names in os.walk(root / name, followlinks=True):
        hidden += sum(map(is_hidden, (*folders, *names)))
        folders[:] = sorted(f for f in folders if not is_hidden(f))
        for file in names:
            if not is_hidden(file):
                path = Path(folder, file)
                reason = _why_not(path)
                relative = path.relative_to(root).as_posix()
                if reason is None:
                    found.append(relative)
                else:
                    refused.append(LeftOut(relative, reason))
    return found, refused, hidden


@functools.cache
def usual_suffixes() -> frozenset[str]:
    """Suffixes that Pillow reads; files with others are tried one by one."""
    Image.init()
    extensions = Image.registered_extensions()
    no_pictures = {".pdf", ".mpg", ".mpeg", ".eps", ".ps", ".hdf", ".h5"}
    return frozenset(s for s, kind in extensions.items() if kind in Image.OPEN) - no_pictures


def _why_not(path: Path) -> str | None:
    """Why a file is no picture by its suffix and start; None when it is taken."""
    suffix = path.suffix.lower()
    if suffix in usual_suffixes():
        return None
    try:
        with Image.open(path):
            return None
    except UNREADABLE:
        kind = f"suffix {suffix!r}" if suffix else "no suffix"
        return f"{kind} and not a picture that Pillow reads"


def _training_classes(train: Listing, empty: str) -> tuple[str, ...]:
    without = [name for name, files in train.pictures.items() if not files]
    if len(without) == len(train.pictures):
        raise DataError(f"there are no pictures in {train.root}")
    if without and empty == "error":
        raise DataError(
            f"class folders without pictures in {train.root}",
            got=", ".join(without),
            hint="Fill or remove them, or choose empty='keep' or 'drop'.",
        )
    return tuple(sorted(n for n in train.pictures if empty == "keep" or n not in without))


def _check_test_classes(test: Listing, classes: tuple[str, ...]) -> None:
    extra = [name for name, files in test.pictures.items() if files and name not in classes]
    if extra:
        raise DataError(
            f"{test.root} has classes that training lacks",
            got=", ".join(extra),
            hint=close_names(extra[0], list(classes)),
        )


def divide(
    pictures: Pictures, fraction: float, *, seed: int
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Training and test files of each class, by the hash of their names and `seed`.

    A class keeps at least one file for training.
    """
    train, test = {}, {}
    for name, files in pictures.items():
        ranked = sorted(files, key=lambda file: hashlib.sha256(f"{seed}/{file}".encode()).digest())
        chosen = set(ranked[: max(0, min(round(fraction * len(files)), len(files) - 1))])
        train[name] = tuple(f for f in files if f not in chosen)
        test[name] = tuple(f for f in files if f in chosen)
    return train, test


def _split(listing: Listing, pictures: Pictures, classes: tuple[str, ...], bad: str) -> FolderSplit:
    files = [(f, label) for label, name in enumerate(classes) for f in pictures.get(name, ())]
    return FolderSplit(
        root=listing.root,
        files=tuple(file for file, _ in files),
        labels=torch.tensor([label for _, label in files], dtype=torch.int64),
        classes=classes,
        left_out=listing.left_out,
        hidden=listing.hidden,
        bad_images=bad,
    )


def _names_sum(split: FolderSplit) -> str:
    """SHA-256 of the file names and labels; the pictures themselves are not read."""
    lines: Iterable[Any] = zip(split.files, split.labels.tolist(), strict=True)
    return hashlib.sha256("".join(f"{f}\t{n}\n" for f, n in lines).encode()).hexdigest()
