"""CIFAR in the cache: loaded at once, or the command to type."""

import pytest
import torch

from reslab.data.cifar import CIFAR10, cache_file, cache_folder, load_cifar
from reslab.errors import DataError


def test_a_damaged_cache_tells_the_command(tmp_path):
    cache_file(CIFAR10, tmp_path).write_bytes(b"12345678 no")
    with pytest.raises(DataError, match=r"is damaged .*Run again: reslab data get cifar10"):
        load_cifar(CIFAR10, tmp_path)


def test_the_cache_is_the_users_unless_a_root_is_given(tmp_path):
    assert cache_folder(tmp_path) == tmp_path
    assert cache_folder().name == "reslab"


@pytest.mark.skipif(not cache_file(CIFAR10).exists(), reason="needs `reslab data get cifar10`")
def test_the_real_cifar10_has_the_known_statistics():
    data = load_cifar(CIFAR10)
    assert (tuple(data.train.images.shape), len(data.test)) == ((50000, 3, 32, 32), 10000)
    assert data.sums == CIFAR10.sums
    found = data.preprocessing()
    assert found.mean == pytest.approx((0.49139968, 0.48215841, 0.44653091), abs=5e-9)
    assert found.std == pytest.approx((0.24703223, 0.24348513, 0.26158784), abs=5e-9)
    assert torch.bincount(data.test.labels).tolist() == [1000] * 10


def test_the_variable_says_where_data_sets_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("RESLAB_DATA", str(tmp_path))
    assert cache_folder() == tmp_path
    assert cache_folder(tmp_path / "given") == tmp_path / "given"
