"""A whole folder is examined, whatever the number of threads, and reported as plain values."""

import dataclasses
import json

import pytest

from reslab.data import check_folder
from reslab.errors import DataError

LARGE = (40, 36)


def test_a_clean_folder_has_no_findings(make_folder):
    folder = make_folder({"train/a": 3, "train/b": 2, "val/a": 1, "val/b": 2}, LARGE)
    report = check_folder(folder)
    assert report.findings == ()
    assert not report.has_errors
    assert report.classes == ("a", "b")
    assert report.pictures == {"train": 5, "val": 3}
    assert report.modes == {"RGB": 8}
    assert report.short_sides == (36, 36, 36)
    assert report.num_bytes == sum(p.stat().st_size for p in folder.rglob("*.png"))


def test_errors_come_first_and_the_report_is_json(make_folder):
    folder = make_folder({"a": 9, "b": 0}, (8, 8))
    report = check_folder(folder)
    ranks = [["error", "warning", "note"].index(f.severity) for f in report.findings]
    assert ranks == sorted(ranks)
    back = json.loads(json.dumps(dataclasses.asdict(report)))
    assert back["pictures"] == {"all": 9}
    assert back["findings"][0]["kind"] == "empty_class"


@pytest.mark.parametrize("workers", [1, 4])
def test_the_report_does_not_depend_on_threads_and_progress_is_told(make_folder, workers):
    folder = make_folder({"a": 6, "b": 5}, (8, 8))
    told = []
    report = check_folder(folder, workers=workers, progress=lambda *now: told.append(now))
    assert report == check_folder(folder)
    assert told == [(n, 11) for n in range(1, 12)]


def test_a_path_without_class_folders_is_refused(tmp_path):
    with pytest.raises(DataError, match="no class folders"):
        check_folder(tmp_path)
    with pytest.raises(DataError, match="not a folder of pictures"):
        check_folder(tmp_path / "gone")
