"""Data sets by name; statistics come from the training split alone."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import TensorDataset

from reslab.data import SOURCES, ArraySplit, Data, load_data
from reslab.data.source import array_sums
from reslab.errors import DataError, UnknownNameError, UsageError


def split(images, labels=None):
    images = torch.as_tensor(np.asarray(images), dtype=torch.uint8)
    labels = torch.arange(len(images)) if labels is None else torch.as_tensor(labels)
    return ArraySplit(images, labels)


def data_of(train, test=None):
    return Data("toy", ("a", "b"), train, test or train, {})


def test_mean_and_deviation_are_of_the_training_pixels():
    train = split([[[[0, 255]]], [[[255, 0]]]])
    test = split([[[[9, 9]]]])
    found = data_of(train, test).preprocessing("mean_std")
    assert (found.mean, found.std) == ((0.5,), (0.5,))
    assert (found.channels, found.size, found.resize) == (1, (1, 2), None)


def test_the_pixel_mean_is_the_mean_picture_and_divides_by_one():
    found = data_of(split([[[[0, 255]]], [[[255, 255]]]])).preprocessing("pixel_mean")
    assert found.mean == (((0.5, 1.0),),)
    assert found.std == (1.0,)


def test_a_constant_channel_is_divided_by_one():
    found = data_of(split(np.full((4, 2, 1, 1), 51))).preprocessing()
    assert found.std == (1.0, 1.0)
    assert found.mean == pytest.approx((0.2, 0.2), abs=1e-15)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
@settings(max_examples=20, deadline=None)
def test_statistics_equal_numpys(seed, count):
    images = np.random.default_rng(seed).integers(0, 256, (count, 3, 4, 5), dtype=np.uint8)
    found = data_of(split(images)).preprocessing()
    pixels = images.astype(np.float64) / 255
    assert found.mean == pytest.approx(pixels.mean((0, 2, 3)), rel=1e-12)
    assert found.std == pytest.approx(pixels.std((0, 2, 3)), rel=1e-12)


def test_statistics_of_more_pictures_than_one_part_add_up():
    images = torch.zeros(5000, 1, 1, 1, dtype=torch.uint8)
    images[4500:] = 255
    assert data_of(ArraySplit(images, torch.zeros(5000).long())).preprocessing().mean == (0.1,)


@pytest.mark.parametrize("count", [1, 3, 9])
def test_a_hold_out_and_the_rest_are_the_training_split(count):
    whole = data_of(split(np.arange(10).reshape(10, 1, 1, 1)), split([[[[77]]]]))
    parts = whole.hold_out(count, seed=5)
    train, held = parts.train.labels.tolist(), parts.test.labels.tolist()
    assert len(held) == count
    assert sorted(train + held) == list(range(10))
    assert parts.test.images.flatten().tolist() == held
    assert whole.hold_out(count, seed=5).test.labels.tolist() == held


def test_another_seed_holds_out_others():
    whole = data_of(split(np.zeros((50, 1, 1, 1))))
    first, second = (whole.hold_out(10, seed=seed).test.labels.tolist() for seed in (0, 1))
    assert first != second


@pytest.mark.parametrize("count", [0, 10, 11, -1])
def test_a_hold_out_leaves_something_to_train_on(count):
    with pytest.raises(DataError, match="expected 1 to 9 samples"):
        data_of(split(np.zeros((10, 1, 1, 1)))).hold_out(count, seed=0)


def test_a_torch_dataset_is_held_out_too():
    dataset = TensorDataset(torch.arange(6.0), torch.arange(6))
    parts = data_of(dataset).hold_out(2, seed=0)
    assert sorted(int(y) for part in (parts.train, parts.test) for _, y in part) == list(range(6))


def test_an_unknown_name_tells_the_nearest_and_that_paths_work():
    with pytest.raises(UnknownNameError, match=r"Did you mean digits\? A path to pictures or text"):
        load_data("digit")


def test_the_known_sets_are_listed():
    assert sorted(SOURCES.names()) == ["cifar10", "cifar100", "digits", "numbers", "reverse"]


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_a_set_that_is_not_here_tells_the_command(tmp_path, name):
    with pytest.raises(DataError, match=f"Run: reslab data get {name}"):
        load_data(name, root=tmp_path)


def test_a_folder_is_loaded_by_its_path(make_folder):
    folder = make_folder({"train/cat": 2, "train/dog": 1, "val/cat": 1})
    data = load_data(str(folder), bad_images="skip")
    assert (data.classes, len(data.train), len(data.test)) == (("cat", "dog"), 3, 1)
    assert data.train.bad_images == "skip"
    found = data.preprocessing(image_size=224)
    assert (found.resize, found.size, found.mean[0]) == (256, (224, 224), 0.485)


def test_what_makes_no_sense_is_refused(make_folder):
    folder = load_data(make_folder({"cat": 5}))
    with pytest.raises(UsageError, match="no mean picture"):
        folder.preprocessing("pixel_mean")
    with pytest.raises(UsageError, match="normalize is unknown: got 'max'"):
        folder.preprocessing("max")
    with pytest.raises(UsageError, match="its own preprocessing"):
        data_of(TensorDataset(torch.zeros(2))).preprocessing()
    with pytest.raises(DataError, match="training split is empty"):
        data_of(split(np.zeros((0, 1, 1, 1)))).preprocessing()


def test_arrays_of_another_kind_are_refused():
    with pytest.raises(DataError, match=r"images are wrong: got 'torch.float32 \(1, 1, 1, 1\)'"):
        ArraySplit(torch.zeros(1, 1, 1, 1), torch.zeros(1).long())
    with pytest.raises(DataError, match=r"labels are wrong.*int64 \[1\]"):
        ArraySplit(torch.zeros(1, 1, 1, 1, dtype=torch.uint8), torch.zeros(2).long())


def test_sums_are_of_images_with_channels_last_and_labels_as_bytes():
    import hashlib

    part = split(np.arange(6).reshape(1, 3, 1, 2), [7])
    sums = array_sums(part, part)
    assert sums["train_images"] == hashlib.sha256(bytes([0, 2, 4, 1, 3, 5])).hexdigest()
    assert sums["test_labels"] == hashlib.sha256(bytes([7])).hexdigest()


def test_data_can_be_pickled():
    again = pickle.loads(pickle.dumps(data_of(split([[[[3]]]]))))
    assert again.train.images.item() == 3
