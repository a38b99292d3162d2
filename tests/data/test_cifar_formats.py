"""Every form of CIFAR decodes to the same arrays; a damaged one is named."""

import pickle

import cifar_toy as toy
import numpy as np
import pytest

from reslab.data.cifar import CIFAR10, CIFAR100
from reslab.data.cifar_formats import read_any
from reslab.errors import DataError

KERAS = "x_train y_train x_test y_test"

FORMS = {
    "python archive": lambda p: toy.write_archive(p / "a.tar.gz", "batches", toy.python_files()),
    "python folder": lambda p: toy.write_folder(p / "a", toy.python_files()),
    "binary archive": lambda p: toy.write_archive(p / "a.tar.gz", "bin", toy.binary_files()),
    "binary folder": lambda p: toy.write_folder(p / "a", toy.binary_files()),
    "npm tarball": lambda p: toy.write_archive(p / "a.tgz", "package", toy.npm_files()),
    "npm folder": lambda p: toy.write_folder(p / "package", toy.npm_files()),
    "npz": lambda p: toy.write_npz(p / "a.npz"),
    "npz, channels first": lambda p: toy.write_npz(p / "a.npz", last=False),
    "npz, Keras names": lambda p: toy.write_npz(p / "a.npz", KERAS),
}


def read(path):
    return read_any(path, CIFAR10.layout, CIFAR10.classes)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_arrays_in_order(tmp_path, form):
    decoded = read(FORMS[form](tmp_path))
    assert (decoded.train.images.numpy() == toy.TRAIN).all()
    assert (decoded.test.images.numpy() == toy.TEST).all()
    assert decoded.train.labels.tolist() == toy.TRAIN_LABELS.tolist()
    assert decoded.test.labels.tolist() == toy.TEST_LABELS.tolist()
    assert decoded.is_ordered


def test_class_names_come_with_the_official_forms(tmp_path):
    for form in ("python folder", "binary archive"):
        assert read(FORMS[form](tmp_path / form)).classes == CIFAR10.classes


def test_folders_of_pictures_lose_the_order_and_say_so(tmp_path):
    decoded = read(toy.write_pictures(tmp_path / "a"))
    assert not decoded.is_ordered
    assert decoded.train.labels.tolist() == list(range(10))
    assert (decoded.train.images.numpy() == toy.TRAIN[::-1]).all()


def test_the_last_label_byte_of_cifar100_is_the_fine_one(tmp_path):
    row = bytes([7, 42]) + toy.TEST[0].tobytes()
    folder = toy.write_folder(tmp_path / "a", {"train.bin": row * 2, "test.bin": row})
    decoded = read_any(folder, CIFAR100.layout, ())
    assert decoded.train.labels.tolist() == [42, 42]
    assert (decoded.test.images[0].numpy() == toy.TEST[0]).all()


def test_the_python_form_of_cifar100_has_fine_labels(tmp_path):
    batch = {"data": toy.TEST.reshape(2, -1), "coarse_labels": [1, 1], "fine_labels": [8, 9]}
    files = {name: pickle.dumps(batch) for name in ("train", "test")}
    decoded = read_any(toy.write_folder(tmp_path / "a", files), CIFAR100.layout, ())
    assert decoded.test.labels.tolist() == [8, 9]


def damaged(tmp_path, change):
    files = toy.python_files()
    change(files)
    return toy.write_folder(tmp_path / "a", files)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.pop("data_batch_3"), "lacks data_batch_3"),
        (lambda f: f.update(data_batch_2=b"<html>"), "cannot read data_batch_2 in"),
        (lambda f: f.update(test_batch=pickle.dumps({"labels": []})), r"has no 'data'"),
        (
            lambda f: f.update(
                test_batch=pickle.dumps({"data": np.zeros(3, np.int64), "labels": [1]})
            ),
            r"another form: got 'int64 \(3,\)'",
        ),
        (
            lambda f: f.update(
                test_batch=pickle.dumps({"data": toy.TEST.reshape(2, -1), "labels": [1]})
            ),
            r"labels are wrong: .* expected int64 \[2\]",
        ),
        (
            lambda f: f.update(
                test_batch=pickle.dumps({"data": toy.TEST.reshape(2, -1), "labels": [-1, 2]})
            ),
            "expected whole numbers from 0",
        ),
    ],
)
def test_damaged_python_files_are_named(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        read(damaged(tmp_path, change))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"\x1f\x8b\x08\x00cut", "a damaged gzip file of 7 bytes"),
        (b"", "a file that starts with b''"),
        (b"Rar!\x1a\x07", "starts with b'Rar!"),
    ],
    ids=["html", "gzip", "empty", "rar"],
)
def test_a_file_that_is_no_archive_says_what_it_is(tmp_path, content, found):
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(content)
    with pytest.raises(DataError, match=rf"python\.tar\.gz is not a whole archive.*{found}"):
        read(tmp_path / "cifar-10-python.tar.gz")


@pytest.mark.parametrize("keep", [0.2, 0.6, 0.95])
def test_a_cut_archive_is_refused(tmp_path, keep):
    path = FORMS["python archive"](tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data))])
    with pytest.raises(DataError, match=r"a\.tar\.gz"):
        read(path)


def test_cut_binary_rows_are_refused(tmp_path):
    files = toy.binary_files()
    files["test_batch.bin"] = files["test_batch.bin"][:-1]
    with pytest.raises(DataError, match="expected a multiple of 3073"):
        read(toy.write_folder(tmp_path / "a", files))


def test_another_picture_in_place_of_a_sheet_is_refused(tmp_path):
    files = toy.npm_files()
    files["test_batch.png"] = files["test_batch.png"][:300]
    with pytest.raises(DataError, match=r"cannot read test_batch\.png in"):
        read(toy.write_folder(tmp_path / "a", files))
    files["test_batch.png"] = toy.sheet(toy.TEST.reshape(1, 6, 1024)[:, :3].reshape(1, 3, 32, 32))
    del files["test_lables.json"]
    with pytest.raises(DataError, match=r"cannot read test_lables\.json"):
        read(toy.write_folder(tmp_path / "b", files))


def test_an_npz_without_labels_lists_the_names_it_may_have(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=toy.TRAIN)
    with pytest.raises(DataError, match=r"lacks an array: expected .*train_labels or y_train"):
        read(tmp_path / "a.npz")


def test_a_broken_or_pickled_npz_is_refused(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 no")
    with pytest.raises(DataError, match=r"cannot read .*a\.npz"):
        read(tmp_path / "a.npz")
    names = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(tmp_path / "b.npz", **{n: np.array([{}], dtype=object) for n in names})
    with pytest.raises(DataError, match=r"cannot read .*b\.npz"):
        read(tmp_path / "b.npz")


def test_folders_of_pictures_name_what_does_not_belong(tmp_path):
    folder = toy.write_pictures(tmp_path / "a")
    (folder / "train" / "cat" / "b.png").write_bytes(b"no")
    with pytest.raises(DataError, match=r"cannot read .*cat.b\.png"):
        read(folder)
    with pytest.raises(DataError, match="no folder for class 'airplane'"):
        for part in ("train", "test"):
            (tmp_path / "b" / part).mkdir(parents=True)
        read(tmp_path / "b")


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no CIFAR files"):
        read(tmp_path)
