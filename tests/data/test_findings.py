"""Every known trouble of a folder of pictures is found, counted, and named once."""

import shutil

import numpy as np
from conftest import picture
from PIL import Image

from reslab.data import check_folder

LARGE = (40, 36)


def found(folder, **options):
    return {f.kind: f for f in check_folder(folder, **options).findings}


def test_files_that_are_no_pictures_are_errors_named_with_the_reason(make_folder):
    folder = make_folder({"train/a": 3, "val/a": 1}, LARGE)
    (folder / "train/a/empty.jpg").write_bytes(b"")
    (folder / "train/a/page.jpg").write_bytes(b"<html>")
    cut = folder / "val/a/cut.png"
    picture(50, LARGE).save(cut)
    cut.write_bytes(cut.read_bytes()[:-200])
    findings = found(folder)
    assert findings["empty"].examples == ("train/a/empty.jpg: 0 bytes",)
    assert findings["other_content"].examples == ("train/a/page.jpg: a web page (HTML)",)
    assert findings["unreadable"].examples[0].startswith("val/a/cut.png: ")
    assert {f.severity for f in findings.values()} == {"error"}
    assert check_folder(folder).has_errors


def test_classes_that_do_not_match_are_found(make_folder):
    counts = {"train/cat": 2, "train/dog": 2, "train/owl": 1, "train/gnu": 0}
    folder = make_folder(counts | {"val/cats": 1, "val/dog": 1, "val/owl": 0}, LARGE)
    findings = found(folder)
    assert findings["extra_class"].examples == ("cats",)
    assert findings["extra_class"].severity == "error"
    assert "Did you mean cat?" in findings["extra_class"].advice
    assert findings["missing_class"].examples == ("cat", "owl")
    assert findings["empty_class"].examples == ("gnu",)
    assert findings["single_picture"].examples == ("owl",)


def test_copies_are_found_across_and_within_splits(make_folder):
    folder = make_folder({"train/a": 2, "train/b": 2, "val/a": 1}, LARGE)
    shutil.copy(folder / "train/a/0.png", folder / "val/a/leak.png")
    shutil.copy(folder / "train/a/1.png", folder / "train/b/torn.png")
    findings = found(folder)
    assert findings["leak"].examples == ("train/a/0.png = val/a/leak.png",)
    assert findings["leak"].severity == "warning"
    assert findings["two_labels"].examples == ("train/a/1.png = train/b/torn.png",)
    assert findings["copies"].count == 1


def test_what_is_not_used_is_told(make_folder):
    folder = make_folder({"train/a": 2, "val/a": 1, "train/.ipynb_checkpoints": 1}, LARGE)
    (folder / "train/a/Thumbs.db").write_text("x")
    (folder / "val/a/list.csv").write_text("x")
    findings = found(folder)
    assert findings["hidden"].count == 2
    assert findings["left_out"].examples == (
        "val/a/list.csv: suffix '.csv' and not a picture that Pillow reads",
    )


def test_unusual_pictures_are_noted(make_folder):
    folder = make_folder({"train/a": 2, "val/a": 1}, LARGE)
    home = folder / "train/a"
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(20, LARGE).save(home / "turned.jpg", exif=exif)
    picture(21, LARGE).convert("L").save(home / "grey.png")
    picture(22, LARGE).convert("RGBA").save(home / "alpha.png")
    picture(23, LARGE).convert("CMYK").save(home / "cmyk.jpg")
    Image.fromarray(np.full((40, 40), 999, np.uint16)).save(home / "deep.png")
    picture(24, LARGE).save(home / "png.jpg", "PNG")
    picture(25, (8, 8)).save(home / "tiny.png")
    picture(26, (300, 200)).save(home / "large.png")
    frames = {"save_all": True, "append_images": [picture(28, LARGE)]}
    picture(27, LARGE).save(home / "moving.gif", **frames)
    findings = found(folder)
    expected = {
        "turned": "turned.jpg",
        "grey": "grey.png",
        "alpha": "alpha.png",
        "cmyk": "cmyk.jpg",
        "deep": "deep.png",
        "misnamed": "png.jpg",
        "tiny": "tiny.png",
        "frames": "moving.gif",
    }
    assert {k: f.examples for k, f in findings.items() if k != "sizes"} == {
        kind: (f"train/a/{name}",) for kind, name in expected.items()
    }
    assert "from 8 to 200 pixels" in findings["sizes"].what
    assert findings["sizes"].examples == ("train/a/tiny.png", "train/a/large.png")
    assert not check_folder(folder).has_errors


def test_batch_sizes_that_leave_one_over_are_noted(make_folder):
    findings = found(make_folder({"train/a": 20, "train/b": 13, "val/a": 1, "val/b": 1}, LARGE))
    assert findings["last_batch"].examples == ("16", "32")
    assert "one of 33 training pictures" in findings["last_batch"].what


def test_a_folder_yet_to_be_split_counts_what_would_train(make_folder):
    folder = make_folder({"a": 21}, LARGE)
    assert "of 17 training pictures" in found(folder)["last_batch"].what
    assert check_folder(folder).pictures == {"all": 21}


def test_at_most_five_examples_are_kept_and_all_are_counted(make_folder):
    findings = found(make_folder({"a": 9}, (8, 8)))
    assert (findings["tiny"].count, len(findings["tiny"].examples)) == (9, 5)
