"""One picture file is measured, or its trouble named."""

import numpy as np
import pytest
from conftest import picture
from PIL import Image

from reslab.data.facts import examine_picture


def test_a_good_picture_is_measured(tmp_path):
    picture(1, (7, 5)).save(tmp_path / "a.png")
    facts = examine_picture(tmp_path, "a.png")
    assert (facts.trouble, facts.mode, facts.size) == ("", "RGB", (7, 5))
    assert facts.num_bytes == (tmp_path / "a.png").stat().st_size
    assert not facts.is_turned and not facts.is_misnamed
    assert facts.num_frames == 1


def test_what_is_unusual_but_readable_is_seen(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 3
    picture(1).save(tmp_path / "turned.jpg", exif=exif)
    picture(1).save(tmp_path / "png_in_truth.jpg", "PNG")
    picture(1).save(tmp_path / "two.gif", save_all=True, append_images=[picture(2)])
    Image.fromarray(np.full((4, 4), 999, np.uint16)).save(tmp_path / "deep.png")
    facts = {p.name: examine_picture(tmp_path, p.name) for p in tmp_path.iterdir()}
    assert [name for name, f in facts.items() if f.trouble] == []
    assert facts["turned.jpg"].is_turned
    assert facts["png_in_truth.jpg"].is_misnamed
    assert facts["two.gif"].num_frames == 2
    assert facts["deep.png"].mode == "I;16"


@pytest.mark.parametrize(
    ("content", "trouble", "reason"),
    [
        (b"", "empty", "0 bytes"),
        (b"\n<!DOCTYPE html>", "other_content", "a web page (HTML)"),
        (b"%PDF-1.4", "other_content", "PDF"),
        (b"PK\x03\x04", "other_content", "a ZIP archive"),
        (b'{"a": 1}', "other_content", "JSON"),
        (b"version https://git-lfs.github.com/spec/v1", "other_content", "a Git LFS pointer"),
        (b"\xff\xd8\xff\xe0 broken", "unreadable", ""),
        (b"nothing known", "unreadable", "not in a format that Pillow knows"),
    ],
)
def test_trouble_has_a_name_and_a_reason(tmp_path, content, trouble, reason):
    (tmp_path / "a.jpg").write_bytes(content)
    facts = examine_picture(tmp_path, "a.jpg")
    assert facts.trouble == trouble
    assert facts.reason.startswith(reason)


def test_a_cut_picture_is_unreadable_though_its_start_is_fine(tmp_path):
    picture(1, (64, 64)).save(tmp_path / "a.jpg")
    data = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(data[: len(data) // 2])
    facts = examine_picture(tmp_path, "a.jpg")
    assert facts.trouble == "unreadable"
    assert "truncated" in facts.reason


def test_a_file_that_went_away_is_unreadable(tmp_path):
    assert examine_picture(tmp_path, "gone.png").trouble == "unreadable"
