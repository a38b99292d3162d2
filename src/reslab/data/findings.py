"""What may be wrong with a folder of pictures, once its files are listed and examined."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from reslab.data.facts import PictureFacts
from reslab.data.folder import Listing, divide
from reslab.registry import close_names

__all__ = ["Finding", "Part", "find_all"]

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


@dataclass(frozen=True)
class Part:
    """One split as listed and examined; paths in `facts` start at the checked folder."""

    name: str
    listing: Listing
    facts: dict[str, PictureFacts]

    def shown(self, relative: str) -> str:
        """A path as the user sees it, from the checked folder."""
        return relative if self.name == "all" else f"{self.listing.root.name}/{relative}"

    @property
    def seen(self) -> list[tuple[str, PictureFacts]]:
        """Pictures that could be decoded, by the path shown to the user."""
        return [(self.shown(path), f) for path, f in self.facts.items() if not f.trouble]


def find_all(parts: list[Part]) -> tuple[Finding, ...]:
    """Everything found in the training part and, where there is one, the validation part.

    Errors come first, then warnings, then notes.
    """
    found = [*_trouble(parts), *_classes(parts), *_copies(parts), *_kinds(parts), *_sizes(parts)]
    found += [*_skipped(parts), *_last_batch(parts[0])]
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


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


def _trouble(parts: list[Part]) -> Iterator[Finding]:
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


def _classes(parts: list[Part]) -> Iterator[Finding]:
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


def _copies(parts: list[Part]) -> Iterator[Finding]:
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


def _kinds(parts: list[Part]) -> Iterator[Finding]:
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


def _sizes(parts: list[Part]) -> Iterator[Finding]:
    seen = sorted((min(facts.size), shown) for part in parts for shown, facts in part.seen)
    if seen and seen[-1][0] > _RANGE * max(seen[0][0], 1):
        what = f"shorter sides that differ much, from {seen[0][0]} to {seen[-1][0]} pixels"
        yield from _finding("sizes", what, [seen[0][1], seen[-1][1]])


def _skipped(parts: list[Part]) -> Iterator[Finding]:
    files = [f"{p.shown(f.path)}: {f.reason}" for p in parts for f in p.listing.left_out]
    yield from _finding("left_out", "files that are not used", files, severity="warning")
    hidden = sum(part.listing.hidden for part in parts)
    if hidden:
        what = "hidden names that are skipped (such as .DS_Store, .ipynb_checkpoints)"
        yield Finding(kind="hidden", severity="note", count=hidden, what=what)


def _last_batch(part: Part) -> Iterator[Finding]:
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
