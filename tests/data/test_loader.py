"""Order is a function of (seed, epoch), pixels of (seed, epoch, place), for any number of workers."""

import logging
import multiprocessing
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import Dataset, TensorDataset

from reslab.data import (
    ArraySplit,
    Augment,
    FolderAugment,
    Preprocessing,
    build_eval_loader,
    build_train_loader,
    load_data,
    load_folder,
)
from reslab.data.loader import epoch_order
from reslab.data.preprocess import imagenet_preprocessing
from reslab.errors import DataError, UsageError

GREY = Preprocessing(channels=1, size=(4, 4), mean=(0.5,), std=(0.5,))
SMALL = imagenet_preprocessing(16)
ALL = Augment(crop_padding=2, flip=True, cutout=2)


def arrays(count):
    source = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 1, 4, 4), generator=source, dtype=torch.uint8)
    return ArraySplit(images, torch.arange(count) % 3)


def array_loader(count, batch_size, seed=0):
    return build_train_loader(
        arrays(count), preprocessing=GREY, augment=ALL, batch_size=batch_size, seed=seed
    )


def folder_loader(split, *, workers=0, seed=0, batch_size=3, crop="random_resized"):
    return build_train_loader(
        split,
        preprocessing=SMALL,
        augment=FolderAugment(crop=crop),
        batch_size=batch_size,
        seed=seed,
        workers=workers,
    )


@pytest.fixture
def folder(make_folder):
    return load_folder(make_folder({"train/a": 4, "train/b": 3, "val/a": 2, "val/b": 1}, (24, 20)))


def same(first, second):
    assert len(first) == len(second)
    for one, two in zip(first, second, strict=True):
        assert torch.equal(one.ids, two.ids)
        assert torch.equal(one.targets, two.targets)
        assert torch.equal(one.inputs, two.inputs)


@given(st.integers(2, 40), st.integers(2, 20), st.integers(0, 3), st.data())
@settings(max_examples=25, deadline=None)
def test_an_epoch_entered_in_the_middle_goes_on_as_if_unbroken(count, batch_size, epoch, data):
    loader = array_loader(count, batch_size)
    whole = list(loader.epoch(epoch))
    start = data.draw(st.integers(0, loader.batches_per_epoch))
    same(list(array_loader(count, batch_size).epoch(epoch, start=start)), whole[start:])


@given(st.integers(2, 60), st.integers(1, 20), st.integers(0, 2**40), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_every_sample_comes_once_an_epoch_and_no_batch_is_single(count, batch_size, seed, epoch):
    loader = array_loader(count, batch_size, seed)
    batches = list(loader.epoch(epoch))
    assert len(batches) == loader.batches_per_epoch
    assert torch.cat([b.ids for b in batches]).sort().values.tolist() == list(range(count))
    assert batch_size == 1 or min(len(b.ids) for b in batches) > 1


def test_inputs_belong_to_their_ids_and_targets():
    split = arrays(10)
    loader = build_train_loader(split, preprocessing=GREY, batch_size=4, seed=0)
    for batch in loader.epoch(0):
        assert torch.equal(batch.inputs, GREY.normalize(split.images[batch.ids]))
        assert torch.equal(batch.targets, split.labels[batch.ids])
        assert (batch.inputs.dtype, batch.targets.dtype) == (torch.float32, torch.int64)


def test_order_and_pixels_change_with_epoch_and_seed():
    first, second = (list(array_loader(40, 8).epoch(epoch)) for epoch in (0, 1))
    other = list(array_loader(40, 8, seed=1).epoch(0))
    orders = [tuple(torch.cat([b.ids for b in run]).tolist()) for run in (first, second, other)]
    assert len(set(orders)) == 3


def test_the_order_of_an_epoch_is_the_same_on_every_machine():
    assert epoch_order(0, 0, 8).tolist() == ORDER
    assert epoch_order(0, 1, 8).tolist() != ORDER


ORDER = [0, 7, 4, 3, 5, 1, 2, 6]


def test_a_last_batch_of_one_joins_the_one_before_and_is_told():
    loader = array_loader(9, 4)
    assert [len(b.ids) for b in loader.epoch(0)] == [4, 5]
    assert loader.notes == [
        "the last batch of an epoch has 5 samples instead of 4 and 1, because batch norm needs "
        "more than one value"
    ]
    assert array_loader(10, 4).notes == []


def test_splits_that_cannot_be_trained_on_are_refused():
    with pytest.raises(DataError, match="one sample"):
        array_loader(1, 4)
    with pytest.raises(DataError, match="the split is empty"):
        array_loader(0, 4)
    with pytest.raises(UsageError, match="batch_size is wrong: got 0"):
        array_loader(4, 0)


def test_parts_that_do_not_fit_are_refused(folder):
    with pytest.raises(UsageError, match="not for arrays: got 'FolderAugment'"):
        build_train_loader(
            arrays(4), preprocessing=GREY, augment=FolderAugment(), batch_size=2, seed=0
        )
    with pytest.raises(UsageError, match="not for folders: got 'Augment'"):
        build_train_loader(
            folder.train, preprocessing=SMALL, augment=Augment(), batch_size=2, seed=0
        )
    with pytest.raises(UsageError, match="pictures need a preprocessing"):
        build_eval_loader(arrays(4), preprocessing=None, batch_size=2)
    with pytest.raises(UsageError, match="used as it is"):
        build_train_loader(Numbers(), preprocessing=None, augment=Augment(), batch_size=2, seed=0)


@pytest.mark.parametrize("start", [-1, 4])
def test_a_start_outside_the_epoch_is_refused(start):
    with pytest.raises(UsageError, match="start is outside the epoch"):
        next(array_loader(9, 3).epoch(0, start=start))


@pytest.mark.parametrize("crop", ["random_resized", "short_side", "center"])
def test_pictures_do_not_depend_on_workers_or_on_where_the_epoch_began(folder, crop):
    alone = folder_loader(folder.train, crop=crop)
    helped = folder_loader(folder.train, crop=crop, workers=2)
    for epoch in (3, 4):
        whole = list(alone.epoch(epoch))
        same(list(helped.epoch(epoch)), whole)
        same(list(helped.epoch(epoch, start=1)), whole[1:])


def test_an_epoch_left_early_does_not_disturb_the_next(folder):
    loader = folder_loader(folder.train, workers=1)
    next(loader.epoch(0))
    same(list(loader.epoch(1)), list(folder_loader(folder.train).epoch(1)))


def test_random_crops_differ_between_epochs_and_samples(folder):
    loader = folder_loader(folder.train, batch_size=7)
    first, second = (next(loader.epoch(epoch)) for epoch in (0, 1))
    assert not torch.equal(first.inputs[first.ids.argsort()], second.inputs[second.ids.argsort()])


def test_loading_leaves_the_global_generators_where_they_were(folder):
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    before = torch.get_rng_state(), random.getstate()
    list(folder_loader(folder.train, workers=1).epoch(0))
    list(folder_loader(folder.train).epoch(0))
    list(build_eval_loader(Numbers(), preprocessing=None, batch_size=2))
    list(array_loader(8, 4).epoch(0))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.randint(1000) == np.random.RandomState(5).randint(1000)


@pytest.fixture
def spawned():
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


def test_workers_can_be_spawned(folder, spawned):
    same(
        list(folder_loader(folder.train, workers=1).epoch(0)),
        list(folder_loader(folder.train).epoch(0)),
    )


def break_picture(split, index):
    path = split.root / split.files[index]
    path.write_bytes(path.read_bytes()[:-60])
    return path


@pytest.mark.parametrize("workers", [0, 1])
def test_an_unreadable_picture_stops_training_by_name(folder, workers):
    path = break_picture(folder.train, 2)
    with pytest.raises(DataError, match=f"^cannot read picture {path}"):
        list(folder_loader(folder.train, workers=workers).epoch(0))


def test_skip_leaves_the_sample_out_and_tells_once(make_folder, caplog):
    split = load_folder(make_folder({"train/a": 8, "val/a": 1}), bad_images="skip").train
    path = break_picture(split, 2)
    loader = folder_loader(split, batch_size=4)
    for epoch in (0, 1):
        ids = torch.cat([b.ids for b in loader.epoch(epoch)])
        assert ids.sort().values.tolist() == [0, 1, 3, 4, 5, 6, 7]
    assert loader.batches_per_epoch == 2
    assert [str(path) in reason for reason in loader.skipped] == [True]
    assert [r.levelno for r in caplog.records] == [logging.WARNING]


def test_skip_never_puts_another_sample_in_place_in_evaluation(make_folder):
    data = load_folder(make_folder({"train/a": 3, "val/a": 4}), bad_images="skip")
    break_picture(data.test, 1)
    loader = build_eval_loader(data.test, preprocessing=SMALL, batch_size=1)
    assert [b.ids.tolist() for b in loader] == [[0], [2], [3]]
    assert len(loader.skipped) == 1


def test_a_batch_left_with_one_picture_stops_training(make_folder):
    split = load_folder(make_folder({"train/a": 2, "val/a": 1}), bad_images="skip").train
    break_picture(split, 0)
    with pytest.raises(DataError, match="too many pictures of one batch.*got 1"):  # noqa: RUF043
        list(folder_loader(split).epoch(0))


def test_what_a_folder_holds_beside_pictures_is_noted(make_folder):
    folder = make_folder({"train/a": 4, "val/a": 1})
    (folder / "train" / "a" / "list.txt").write_text("x")
    (folder / "train" / ".DS_Store").write_text("x")
    notes = folder_loader(load_folder(folder).train, batch_size=4).notes
    assert notes[0].startswith("1 files in ")
    assert "a/list.txt (suffix '.txt' and not a picture" in notes[0]
    assert notes[1].startswith("1 hidden names in ")


def test_more_workers_than_cores_is_noted(folder):
    assert "99 loader workers share" in folder_loader(folder.train, workers=99).notes[-1]


@pytest.mark.parametrize("view", ["single", "flip", "ten-crop", "multi-scale"])
def test_evaluation_meets_every_array_once_in_order(view):
    split = arrays(7)
    loader = build_eval_loader(split, preprocessing=GREY, batch_size=3, view=view)
    for _ in range(2):
        batches = list(loader)
        assert torch.cat([b.ids for b in batches]).tolist() == list(range(7))
        assert torch.cat([b.targets for b in batches]).tolist() == split.labels.tolist()
    assert len(loader) == 3
    if view != "ten-crop":
        assert torch.equal(batches[0].views[0], GREY.normalize(split.images[:3]))


@pytest.mark.parametrize(
    ("view", "count", "batches"),
    [("single", 1, 2), ("flip", 2, 2), ("ten-crop", 10, 2), ("multi-scale", 5, 3)],
)
@pytest.mark.parametrize("workers", [0, 1])
def test_evaluation_meets_every_picture_once_in_order(folder, view, count, batches, workers):
    loader = build_eval_loader(
        folder.test, preprocessing=SMALL, batch_size=2, view=view, workers=workers
    )
    found = list(loader)
    assert len(found) == len(loader) == batches
    assert torch.cat([b.ids for b in found]).tolist() == [0, 1, 2]
    assert torch.cat([b.targets for b in found]).tolist() == [0, 0, 1]
    assert all(len(b.views) == count for b in found)


def test_evaluating_a_folder_and_predicting_its_files_see_the_same_inputs(folder):
    (batch,) = build_eval_loader(folder.test, preprocessing=SMALL, batch_size=9)
    for index, file in enumerate(folder.test.files):
        pixels = SMALL.from_image(folder.test.root / file)
        assert torch.equal(SMALL.normalize(pixels[None])[0], batch.views[0][index])


class Numbers(Dataset):
    """Ten samples, each the number itself with some noise."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        noise = torch.rand(()) + np.random.rand() + random.random()
        return torch.full((1, 2, 2), float(index)) + noise / 4, index % 2


@pytest.mark.parametrize("workers", [0, 2])
def test_any_dataset_follows_the_same_rules(workers):
    def build():
        return build_train_loader(
            Numbers(), preprocessing=None, batch_size=3, seed=7, workers=workers
        )

    loader = build()
    whole = list(loader.epoch(2))
    assert [len(b.ids) for b in whole] == [3, 3, 4]
    assert torch.cat([b.ids for b in whole]).tolist() == epoch_order(7, 2, 10).tolist()
    for batch in whole:
        assert torch.equal(batch.inputs[:, 0, 0, 0].floor().long(), batch.ids)
        assert torch.equal(batch.targets, batch.ids % 2)
    same(list(build().epoch(2, start=1)), whole[1:])


def test_a_dataset_is_evaluated_in_views_too():
    dataset = TensorDataset(torch.randn(5, 1, 4, 4), torch.arange(5))
    loader = build_eval_loader(dataset, preprocessing=None, batch_size=2, view="flip")
    assert torch.cat([b.targets for b in loader]).tolist() == list(range(5))
    first = next(iter(loader))
    assert torch.equal(first.views[1], dataset.tensors[0][:2].flip(3))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([("text", 0)] * 4, "sample 0 of the Dataset is no"),
        ([(torch.zeros(2), None)] * 4, "sample 0 of the Dataset is no"),
        ([(torch.zeros(2), 0), (torch.zeros(3), 0)], "different shapes"),
    ],
    ids=["text", "no label", "ragged"],
)
def test_a_dataset_of_something_else_is_one_sentence(items, message, workers):
    loader = build_eval_loader(items, preprocessing=None, batch_size=4, workers=workers)
    with pytest.raises(DataError, match=f"^{message}|^samples of a batch have {message}"):
        list(loader)


def test_the_digits_go_through_as_they_are():
    data = load_data("digits")
    loader = build_train_loader(
        data.train, preprocessing=data.preprocessing(), batch_size=128, seed=0
    )
    inputs = torch.cat([b.inputs for b in loader.epoch(0)])
    assert inputs.mean() == pytest.approx(0, abs=1e-5)
    assert inputs.std() == pytest.approx(1, abs=1e-3)
