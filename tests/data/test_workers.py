"""Worker processes: shared memory checked before, failures told with advice."""

import os
import signal
import time

import pytest
import torch
from torch.utils.data import Dataset

from reslab.data import build_eval_loader, workers
from reslab.data.workers import check_shared_memory, usable_cores
from reslab.errors import DataError


def test_too_little_shared_memory_is_found_before_the_start(tmp_path):
    with pytest.raises(DataError, match=r"too small for 4 workers: got '.* GiB free'.*--shm-size"):
        check_shared_memory(4, 2**50, folder=tmp_path)


def test_enough_shared_memory_or_none_needed_passes(tmp_path):
    check_shared_memory(4, 1, folder=tmp_path)
    check_shared_memory(0, 2**50, folder=tmp_path)
    check_shared_memory(4, 2**50, folder=tmp_path / "not there")


class Dies(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        os.kill(os.getpid(), signal.SIGKILL)


class Sleeps(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        time.sleep(1.5)
        return torch.zeros(1), 0


class Fails(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        raise RuntimeError("my own trouble")


def load(dataset):
    return list(build_eval_loader(dataset, preprocessing=None, batch_size=2, workers=1))


def test_a_killed_worker_is_told_with_advice():
    with pytest.raises(DataError, match=r"data loader stopped .*try fewer workers"):
        load(Dies())


def test_a_worker_that_gives_nothing_is_told_with_advice(monkeypatch):
    monkeypatch.setattr(workers, "_TIMEOUT_SECONDS", 0.3)
    with pytest.raises(DataError, match=r"timed out after 0.3 seconds.*Try workers=0"):
        load(Sleeps())


def test_an_error_of_the_users_dataset_stays_what_it_is():
    with pytest.raises(RuntimeError, match="my own trouble"):
        load(Fails())


class Threads(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return torch.zeros(1), torch.get_num_threads()


def test_a_worker_uses_one_thread():
    assert load(Threads())[0].targets.tolist() == [1]


def test_usable_cores_are_at_least_one():
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
