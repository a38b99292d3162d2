"""Files are written whole or not at all."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reslab import files
from reslab.errors import DataError, DiskError, RunError


def test_a_block_that_fails_leaves_the_old_file_and_no_trace(tmp_path):
    files.write_text(tmp_path / "a", "old")
    with pytest.raises(ZeroDivisionError), files.write_atomic(tmp_path / "a") as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path):
    files.write_text(tmp_path / "a", "old")
    with (
        pytest.raises(DiskError, match="No space left"),
        files.write_atomic(tmp_path / "a"),
        Path("/dev/full").open("wb", buffering=0) as full,
    ):
        full.write(b"x")
    assert (tmp_path / "a").read_text() == "old"


def test_a_folder_that_cannot_be_made_is_a_disk_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="Choose another folder"):
        files.write_text(tmp_path / "file" / "inner", "x")


def test_a_line_cut_by_a_kill_is_left_out_and_one_in_the_middle_is_named(tmp_path):
    path = tmp_path / "m.jsonl"
    files.append_jsonl(path, {"a": 1})
    with path.open("a") as file:
        file.write('{"a": ')
    assert files.read_jsonl(path) == [{"a": 1}]
    with path.open("a") as file:
        file.write('\n{"a": 3}\n')
    with pytest.raises(DataError, match=r"m\.jsonl, line 2"):
        files.read_jsonl(path)


def write_forever(path):
    number = 0
    while True:
        files.write_json(path, {"number": number, "filler": "x" * 200_000})
        number += 1


@pytest.mark.parametrize("delay", [0.05, 0.11, 0.19])
def test_a_file_is_whole_whenever_its_writer_is_killed(tmp_path, delay):
    path = tmp_path / "a.json"
    process = multiprocessing.get_context("spawn").Process(target=write_forever, args=(path,))
    process.start()
    while not path.exists():
        time.sleep(0.005)
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert len(files.read_json(path)["filler"]) == 200_000


def test_two_processes_cannot_hold_one_folder(tmp_path):
    with files.locked(tmp_path), pytest.raises(RunError, match="in use"), files.locked(tmp_path):
        pass
    with files.locked(tmp_path):
        pass


def test_new_files_follow_the_umask(tmp_path):
    files.write_text(tmp_path / "a", "x")
    assert oct((tmp_path / "a").stat().st_mode & 0o777) == oct(0o666 & ~files._umask())


def test_this_module_loads_no_torch():
    code = (
        "import reslab, reslab.files, reslab.recipe, reslab.records, sys; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
