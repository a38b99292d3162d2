"""Folders of pictures: classes by name, nothing left out in silence."""

import pickle
import unicodedata

import pytest
from conftest import picture
from PIL import Image

from reslab.data import load_folder
from reslab.data.folder import divide, find_parts, list_pictures
from reslab.errors import DataError, UsageError


def test_classes_are_the_sorted_training_folders_and_val_is_matched_by_name(make_folder):
    folder = make_folder({"train/dog": 2, "train/ant": 1, "train/cat": 3, "val/dog": 1})
    data = load_folder(folder)
    assert data.classes == ("ant", "cat", "dog")
    assert data.train.files[:2] == ("ant/0.png", "cat/0.png")
    assert data.train.labels.tolist() == [0, 1, 1, 1, 2, 2]
    assert data.test.labels.tolist() == [2]


@pytest.mark.parametrize(
    ("train", "val"),
    [("train", "valid"), ("Train", "Test"), ("train", "validation"), ("training", "testing")],
)
def test_splits_go_by_many_names(make_folder, train, val):
    data = load_folder(make_folder({f"{train}/a": 2, f"{val}/a": 1}))
    assert (data.train.root.name, data.test.root.name) == (train, val)


def test_val_comes_before_test_when_both_are_there(make_folder):
    data = load_folder(make_folder({"train/a": 2, "val/a": 1, "test/a": 1}))
    assert data.test.root.name == "val"


def test_a_class_called_train_is_a_class(make_folder):
    data = load_folder(make_folder({"train": 3, "plane": 3}))
    assert data.classes == ("plane", "train")


def test_without_a_val_folder_a_fraction_of_each_class_is_the_test(make_folder):
    folder = make_folder({"a": 10, "b": 5, "c": 1})
    data = load_folder(folder, test_fraction=0.4)
    assert data.test.labels.tolist() == [0, 0, 0, 0, 1, 1]
    assert data.train.labels.tolist() == [0] * 6 + [1] * 3 + [2]
    assert not set(data.train.files) & set(data.test.files)
    assert load_folder(folder, test_fraction=0.4).test.files == data.test.files
    assert load_folder(folder, test_fraction=0.4, seed=1).test.files != data.test.files


def test_a_train_folder_alone_is_split(make_folder):
    data = load_folder(make_folder({"train/a": 5, "train/b": 5}))
    assert (len(data.train), len(data.test)) == (8, 2)


def test_the_split_depends_on_names_not_on_the_order_they_are_listed_in():
    files = tuple(f"a/{n}.png" for n in range(9))
    first, second = (divide({"a": f}, 0.3, seed=0) for f in (files, files[::-1]))
    assert set(first[1]["a"]) == set(second[1]["a"])


def test_a_class_that_val_lacks_keeps_every_label_in_place(make_folder):
    data = load_folder(make_folder({"train/a": 2, "train/b": 2, "train/c": 2, "val/c": 1}))
    assert data.test.classes == ("a", "b", "c")
    assert data.test.labels.tolist() == [2]


def test_a_class_that_only_val_has_is_refused_with_the_nearest_name(make_folder):
    folder = make_folder({"train/cat": 2, "val/cats": 1})
    message = r"val has classes that training lacks: got 'cats'.*Did you mean cat\?"
    with pytest.raises(DataError, match=message):
        load_folder(folder)


def test_hidden_names_are_skipped_and_counted(make_folder):
    folder = make_folder({"a": 3, ".ipynb_checkpoints": 2, "__MACOSX": 1, "a/.thumbs": 1})
    (folder / ".DS_Store").write_bytes(b"x")
    (folder / "a" / "Thumbs.db").write_bytes(b"x")
    data = load_folder(folder)
    assert data.classes == ("a",)
    assert len(data.train) + len(data.test) == 3
    assert data.train.hidden == 5


def test_unusual_suffixes_are_read_or_listed_with_the_reason(make_folder):
    folder = make_folder({"a": 1})
    picture(7).save(folder / "a" / "x.jfif", "JPEG")
    picture(8).save(folder / "a" / "y.picture", "PNG")
    picture(9).save(folder / "a" / "no_suffix", "PNG")
    picture(10).save(folder / "a" / "BIG.PNG")
    (folder / "a" / "notes.txt").write_text("hello")
    (folder / "readme.md").write_text("hello")
    listing = list_pictures(folder)
    names = ("0.png", "BIG.PNG", "no_suffix", "x.jfif", "y.picture")
    assert listing.pictures == {"a": tuple(f"a/{name}" for name in names)}
    reasons = {f.path: f.reason for f in listing.left_out}
    assert reasons["readme.md"] == "not in a class folder"
    assert reasons["a/notes.txt"] == "suffix '.txt' and not a picture that Pillow reads"


def test_pictures_in_folders_below_a_class_belong_to_it(make_folder):
    data = load_folder(make_folder({"a/2020": 2, "a/2021": 2, "b": 2}), test_fraction=0.5)
    assert data.classes == ("a", "b")
    assert len(data.train) + len(data.test) == 6


@pytest.mark.parametrize("name", ["Bär", "猫", "two words", "#1 100%", "a.b"])
def test_any_name_of_class_and_file_works(make_folder, name):
    folder = make_folder({f"train/{name}": 2, f"val/{name}": 1})
    picture(99).save(folder / "train" / name / f"{name}.png")
    data = load_folder(folder)
    assert data.classes == (name,)
    assert all(data.train[i][0].size == (12, 10) for i in range(3))


def test_the_two_ways_to_write_an_umlaut_are_one_class(make_folder):
    name = "Bär"
    forms = [unicodedata.normalize(form, name) for form in ("NFC", "NFD")]
    data = load_folder(make_folder({f"train/{forms[0]}": 2, f"val/{forms[1]}": 1}))
    assert data.classes == (forms[0],)
    assert data.test[0][0].size == (12, 10)


@pytest.mark.parametrize(("empty", "classes"), [("keep", ("a", "b", "c")), ("drop", ("a", "c"))])
def test_an_empty_class_is_kept_or_dropped_when_asked(make_folder, empty, classes):
    folder = make_folder({"train/a": 2, "train/b": 0, "train/c": 1, "val/c": 1})
    data = load_folder(folder, empty=empty)
    assert data.classes == classes
    assert data.test.labels.tolist() == [len(classes) - 1]


def test_an_empty_class_is_an_error_unless_a_choice_is_made(make_folder):
    with pytest.raises(DataError, match="without pictures in .*: got 'b'.*'keep' or 'drop'"):  # noqa: RUF043
        load_folder(make_folder({"a": 2, "b": 0}))


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({}, "has no class folders"),
        ({"a": 0, "b": 0}, "there are no pictures in"),
        ({"train/a": 2, "val/a": 0}, "there are no test pictures"),
        ({"a": 1}, "there are no test pictures"),
    ],
)
def test_a_folder_without_pictures_is_refused(make_folder, tmp_path, counts, message):
    (tmp_path / "pictures").mkdir()
    with pytest.raises(DataError, match=message):
        load_folder(make_folder(counts))


def test_a_path_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="not a folder of pictures: got 'nothing there'"):
        load_folder(tmp_path / "gone")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="got 'a file'"):
        find_parts(tmp_path / "file")


def test_options_out_of_range_are_refused(make_folder):
    folder = make_folder({"a": 2})
    for option in ({"empty": "skip"}, {"bad_images": "replace"}, {"test_fraction": 1.0}):
        with pytest.raises(UsageError, match=next(iter(option))):
            load_folder(folder, **option)


def test_a_split_is_a_dataset_of_upright_rgb_pictures(make_folder):
    folder = make_folder({"train/a": 1, "train/b": 0, "val/a": 1})
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("L", (5, 2), 7).save(folder / "train" / "b" / "x.jpg", exif=exif)
    data = load_folder(folder)
    image, label = pickle.loads(pickle.dumps(data.train))[1]
    assert (image.mode, image.size, label) == ("RGB", (2, 5), 1)


def test_the_sum_changes_with_the_files(make_folder):
    folder = make_folder({"a": 4})
    before = load_folder(folder)
    assert before.sums == load_folder(folder).sums
    picture(50).save(folder / "a" / "new.png")
    assert load_folder(folder).sums != before.sums


def test_a_hold_out_of_a_folder_is_part_of_its_training_files(make_folder):
    data = load_folder(make_folder({"train/a": 4, "train/b": 4, "val/a": 1}))
    parts = data.hold_out(3, seed=0)
    assert sorted(parts.train.files + parts.test.files) == sorted(data.train.files)
    for split in (parts.train, parts.test):
        labels = [data.classes[n] for n in split.labels]
        assert labels == [file.split("/")[0] for file in split.files]
