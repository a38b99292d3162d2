"""The embedded digits: known counts, values and places."""

import hashlib

import numpy as np
import torch

from reslab.data import load_data, load_digits


def test_every_fifth_picture_is_the_test_and_values_are_spread_over_a_byte():
    from sklearn.datasets import load_digits as load_bundle

    bundle, data = load_bundle(), load_data("digits")
    assert (len(data.train), len(data.test)) == (1437, 360)
    assert data.test.labels.tolist() == bundle.target[::5].tolist()
    expected = np.array([round(v * 255 / 16) for v in range(17)])[bundle.images.astype(int)]
    assert (data.test.images[:, 0].numpy() == expected[::5]).all()
    kept = np.arange(1797) % 5 != 0
    assert (data.train.images[:, 0].numpy() == expected[kept]).all()
    assert data.train.images.max() == 255


def test_there_are_ten_classes_and_a_sum_for_each_array():
    data = load_digits()
    assert data.classes == tuple("0123456789")
    assert torch.cat([data.train.labels, data.test.labels]).unique().tolist() == list(range(10))
    assert sorted(data.sums) == ["test_images", "test_labels", "train_images", "train_labels"]
    labels = bytes(data.test.labels.tolist())
    assert data.sums["test_labels"] == hashlib.sha256(labels).hexdigest()
