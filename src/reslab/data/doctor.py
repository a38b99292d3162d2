"""A check of a folder of pictures before training: every file decoded, every known trouble named.

    report = check_folder("path/to/folder")
    for finding in report.findings: ...

`reslab data check PATH` is the command. One picture is examined in `facts`; what counts as trouble is
in `findings`.
"""

import os
import statistics
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from reslab.data.facts import PictureFacts, examine_picture
from reslab.data.findings import Finding, Part, find_all
from reslab.data.folder import Listing, find_parts, list_pictures

__all__ = ["FolderReport", "check_folder"]


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
    parts = [Part(*row) for row in zip(names, listings, facts, strict=True)]
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


def _report(home: Path, parts: list[Part]) -> FolderReport:
    seen = [facts for part in parts for _, facts in part.seen]
    sides = sorted(min(facts.size) for facts in seen) or [0]
    return FolderReport(
        path=str(home),
        classes=tuple(sorted(parts[0].listing.pictures)),
        pictures={part.name: len(part.facts) for part in parts},
        num_bytes=sum(f.num_bytes for part in parts for f in part.facts.values()),
        modes=dict(Counter(facts.mode for facts in seen).most_common()),
        short_sides=(sides[0], statistics.median(sides), sides[-1]),
        findings=find_all(parts),
    )
