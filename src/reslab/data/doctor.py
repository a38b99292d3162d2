"""A check of a folder of pictures before training: every file decoded, every known trouble named.

    report = check_folder("path/to/folder")
    for finding in report.findings: ...

`reslab data check PATH` is the command. One picture is examined in `facts`.
"""

import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from reslab.data.facts import PictureFacts, examine_picture
from reslab.data.folder import Listing, divide, find_parts, list_pictures
from reslab.registry import close_names

__all__ = ["Finding", "FolderReport", "check_folder"]

SEVERITIES = ("error", "warning", "note")
_EXAMPLES = 5
_TINY = 32
_RANGE = 8
_BATCH_SIZES = (16, 32, 64, 128, 256)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One kind of trouble: how many files or classes have it, examples, and what to do.

    `severity` is "error" (training would stop or be wrong), "warning", or "note".
    """

    kind: str
    severity: str
    count: int
    what: str
    examples: tuple[str, ...] = ()
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class FolderReport:
    """What is in a folder of pictures; `dataclasses.asdict` gives its JSON form.

    `pictures` counts those of each split ("train", "val", or "all" for a folder yet to be split);
    `modes` counts Pillow's modes; `short_sides` are the smallest, median and largest shorter side
    in pixels.
    """

    path: str
    classes: tuple[str, ...]
    pictures: dict[str, int]
    num_bytes: int
    modes: dict[str, int]
    short_sides: tuple[int, float, int]
    findings: tuple[Finding, ...]

    @property
    def has_errors(self) -> bool:
        """Whether anything found would stop training or make it wrong."""
        return any(finding.severity == "error" for finding in self.findings)


@dataclass(frozen=True)
class _Part:
    """One split as listed and examined; paths in `facts` start at the checked folder."""

    name: str
    listing: Listing
    facts: dict[str, PictureFacts]

    def shown(self, relative: str) -> str:
        return relative if self.name == "all" else f"{self.listing.root.name}/{relative}"

    @property
    def seen(self) -> list[tuple[str, PictureFacts]]:
        """Pictures that could be decoded, by the path shown to the user."""
        return [(self.shown(path), f) for path, f in self.facts.items() if not f.trouble]


def check_folder(
    path: str | Path,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FolderReport:
    """Decode every picture under `path` with `workers` threads (default: one a core) and report.

    `progress` is told (pictures done, pictures in all). Raises DataError when `path` is no folder
    or has no class folders.
    """
    home = Path(path)
    train_home, val_home = find_parts(home)
    listings = [list_pictures(train_home)]
    names = ["all"]
    if val_home is not None:
        listings.append(list_pictures(val_home))
        names = ["train", "val"]
    elif train_home != home:
        names = ["train"]
    facts = _examine(listings, workers, progress)
    parts = [_Part(*row) for row in zip(names, listings, facts, strict=True)]
    return _report(home, parts)


def _examine(
    listings: list[Listing], workers: int | None, progress: Callable[[int, int], None] | None
) -> list[dict[str, PictureFacts]]:
    jobs = [
        (number, listing.root, file)
        for number, listing in enumerate(listings)
        for files in listing.pictures.values()
        for file in files
    ]
    found: list[dict[str, PictureFacts]] = [{} for _ in listings]
    # Pillow decodes and hashlib hashes without the interpreter's lock, so threads are enough.
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        results = pool.map(lambda job: examine_picture(job[1], job[2]), jobs)
        for done, (job, facts) in enumerate(zip(jobs, results, strict=True), 1):
            found[job[0]][job[2]] = facts
            if progress:
                progress(done, len(jobs))
    return found


def _report(home: Path, parts: list[_Part]) -> FolderReport:
    seen = [facts for part in parts for _, facts in part.seen]
    sides = sorted(min(facts.size) for facts in seen) or [0]
    findings = [*_trouble(parts), *_classes(parts), *_copies(parts), *_kinds(parts, sides)]
    findings += [*_skipped(parts), *_last_batch(parts[0])]
    return FolderReport(
        path=str(home),
        classes=tuple(sorted(parts[0].listing.pictures)),
        pictures={part.name: len(part.facts) for part in parts},
        num_bytes=sum(f.num_bytes for part in parts for f in part.facts.values()),
        modes=dict(Counter(facts.mode for facts in seen).most_common()),
        short_sides=(sides[0], statistics.median(sides), sides[-1]),
        findings=tuple(sorted(findings, key=lambda f: SEVERITIES.index(f.severity))),
    )


def _finding(
    kind: str, what: str, found: Iterable[str], *, severity: str = "note", advice: str = ""
) -> Iterator[Finding]:
    """One finding for everything in `found`, or none."""
    names = list(found)
    if names:
        yield Finding(
            kind=kind,
            severity=severity,
            count=len(names),
            what=what,
            examples=tuple(names[:_EXAMPLES]),
            advice=advice,
        )


def _trouble(parts: list[_Part]) -> Iterator[Finding]:
    kinds = (
        ("empty", "files of 0 bytes", "Copy them again or remove them."),
        ("other_content", "files that are no pictures, whatever their suffix", "Remove them."),
        ("unreadable", "pictures that cannot be decoded, cut or damaged", "Copy them again."),
    )
    for kind, what, advice in kinds:
        bad = [
            f"{part.shown(path)}: {facts.reason}"
            for part in parts
            for path, facts in part.facts.items()
            if facts.trouble == kind
        ]
        more = f"{advice} Or train with bad_images=skip, which leaves them out."
        yield from _finding(kind, what, bad, severity="error", advice=more)


def _classes(parts: list[_Part]) -> Iterator[Finding]:
    train = parts[0].listing.pictures
    yield from _finding(
        "empty_class",
        "class folders without pictures",
        [name for name, files in train.items() if not files],
        severity="error",
        advice="Fill or remove them, or load with empty='keep' or 'drop'.",
    )
    yield from _finding(
        "single_picture",
        "classes with one picture",
        [name for name, files in train.items() if len(files) == 1],
        severity="warning",
        advice="A class of one cannot be learnt and split; add pictures or merge classes.",
    )
    if len(parts) == 2:
        yield from _val_classes(train, parts[1].listing.pictures)


def _val_classes(
    train: dict[str, tuple[str, ...]], val: dict[str, tuple[str, ...]]
) -> Iterator[Finding]:
    extra = [name for name, files in val.items() if files and name not in train]
    hint = close_names(extra[0], sorted(train)) if extra else ""
    yield from _finding(
        "extra_class",
        "classes that only validation has",
        extra,
        severity="error",
        advice=f"Rename or remove them. {hint}",
    )
    yield from _finding(
        "missing_class",
        "classes without validation pictures",
        [name for name, files in train.items() if files and not val.get(name)],
        severity="warning",
        advice="Labels stay right (they go by name), but these classes are not evaluated.",
    )


def _copies(parts: list[_Part]) -> Iterator[Finding]:
    places: dict[str, list[tuple[str, str]]] = {}
    for part in parts:
        for shown, facts in part.seen:
            places.setdefault(facts.sha256, []).append((part.name, shown))
    copied = [same for same in places.values() if len(same) > 1]
    across = [same for same in copied if len({name for name, _ in same}) == 2]
    yield from _finding(
        "leak",
        "pictures that training and validation share, byte for byte",
        [_joined(same) for same in across],
        severity="warning",
        advice="Remove them from training: the validation error is too low otherwise.",
    )
    within = [same for same in copied if len({name for name, _ in same}) == 1]
    torn = [same for same in copied if len({Path(shown).parts[-2] for _, shown in same}) > 1]
    yield from _finding(
        "two_labels",
        "pictures that lie in two classes",
        [_joined(same) for same in torn],
        severity="warning",
        advice="One of the labels is wrong.",
    )
    yield from _finding("copies", "pictures stored twice in a split", [_joined(s) for s in within])


def _joined(same: list[tuple[str, str]]) -> str:
    return " = ".join(shown for _, shown in same)


def _kinds(parts: list[_Part], sides: list[int]) -> Iterator[Finding]:
    seen = [item for part in parts for item in part.seen]

    def where(test: Callable[[PictureFacts], bool]) -> list[str]:
        return [shown for shown, facts in seen if test(facts)]

    tiny = f"pictures with a side under {_TINY} pixels"
    yield from _finding("tiny", tiny, where(lambda f: min(f.size) < _TINY), severity="warning")
    turned = "The turn is applied, the same in training, evaluation and prediction."
    yield from _finding(
        "turned", "pictures turned by EXIF", where(lambda f: f.is_turned), advice=turned
    )
    for kind, modes, what in (
        ("grey", ("1", "L", "LA"), "grey pictures, read as RGB"),
        ("alpha", ("RGBA", "LA", "PA"), "pictures with transparency, laid on white"),
        ("cmyk", ("CMYK", "YCCK"), "CMYK pictures, read as RGB"),
        ("deep", ("I", "I;16", "I;16B", "I;16L", "F"), "pictures of 16 bits or more, scaled to 8"),
    ):
        yield from _finding(kind, what, where(lambda f, m=modes: f.mode in m))  # type: ignore[misc]
    yield from _finding(
        "misnamed", "pictures whose suffix names another format", where(lambda f: f.is_misnamed)
    )
    frames = "moving pictures, of which the first is read"
    yield from _finding("frames", frames, where(lambda f: f.num_frames > 1))
    if sides[-1] > _RANGE * max(sides[0], 1):
        what = f"very different sizes: shorter sides from {sides[0]} to {sides[-1]} pixels"
        ends = [min(seen, key=_short_side)[0], max(seen, key=_short_side)[0]]
        yield from _finding("sizes", what, ends)


def _short_side(item: tuple[str, PictureFacts]) -> int:
    return min(item[1].size)


def _skipped(parts: list[_Part]) -> Iterator[Finding]:
    files = [f"{p.shown(f.path)}: {f.reason}" for p in parts for f in p.listing.left_out]
    yield from _finding("left_out", "files that are not used", files, severity="warning")
    hidden = sum(part.listing.hidden for part in parts)
    if hidden:
        what = "hidden names that are skipped (such as .DS_Store, .ipynb_checkpoints)"
        yield Finding(kind="hidden", severity="note", count=hidden, what=what)


def _last_batch(part: _Part) -> Iterator[Finding]:
    pictures = part.listing.pictures
    if part.name != "train":
        pictures = divide(pictures, 0.2, seed=0)[0]
    count = sum(map(len, pictures.values()))
    sizes = [str(size) for size in _BATCH_SIZES if count > size and count % size == 1]
    yield from _finding(
        "last_batch",
        f"batch sizes that leave one of {count} training pictures over",
        sizes,
        advice="reslab lets the batch before take it; other tools fail in batch norm.",
    )
