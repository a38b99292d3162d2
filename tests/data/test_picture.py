"""Any picture becomes upright 8-bit grey or RGB, or is refused by name."""

import io
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from reslab.data.picture import center_crop, open_image, resize_short_side, to_pixels, upright
from reslab.errors import DataError


def solid(mode, color, size=(3, 2)):
    return Image.new(mode, size, color)


def sixteen_bit(value):
    return Image.fromarray(np.full((2, 3), value, np.uint16))


def palette():
    return solid("RGB", (200, 100, 0)).quantize(4)


@pytest.mark.parametrize(
    ("image", "rgb"),
    [
        (solid("RGB", (1, 2, 3)), (1, 2, 3)),
        (solid("L", 7), (7, 7, 7)),
        (solid("1", 1), (255, 255, 255)),
        (palette(), (200, 100, 0)),
        (solid("CMYK", (0, 0, 0, 255)), (0, 0, 0)),
        (solid("RGBA", (10, 20, 30, 255)), (10, 20, 30)),
        (solid("RGBA", (10, 20, 30, 0)), (255, 255, 255)),
        (solid("LA", (50, 255)), (50, 50, 50)),
        (sixteen_bit(65535), (255, 255, 255)),
        (sixteen_bit(257 * 40), (40, 40, 40)),
        (solid("I", 257 * 9), (9, 9, 9)),
        (solid("F", 12.4), (12, 12, 12)),
    ],
    ids=lambda value: getattr(value, "mode", None),
)
def test_every_mode_becomes_rgb(image, rgb):
    pixels = to_pixels(upright(image, 3))
    assert pixels.shape == (3, 2, 3)
    assert pixels.flatten(1).unique(dim=1).squeeze(1).tolist() == list(rgb)


def test_sixteen_bits_are_scaled_for_one_channel_too():
    assert to_pixels(upright(sixteen_bit(257 * 100), 1)).unique().tolist() == [100]


def test_a_palette_with_transparent_bytes_is_laid_on_white(tmp_path):
    image = palette()
    image.save(tmp_path / "a.png", transparency=bytes([0, 0, 0, 0]))
    assert to_pixels(open_image(tmp_path / "a.png", 3)).unique().tolist() == [255]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_shows_the_same_picture(tmp_path, orientation):
    shown = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
    turn = {
        1: lambda a: a,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: np.transpose,
        6: lambda a: np.rot90(a, 1),
        7: lambda a: np.rot90(a.T, 2),
        8: lambda a: np.rot90(a, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(turn(shown))).save(tmp_path / "a.png", exif=exif)
    assert to_pixels(open_image(tmp_path / "a.png", 1))[0].tolist() == shown.tolist()


def test_channels_other_than_one_and_three_are_refused():
    with pytest.raises(DataError, match="1 or 3 channels: got 13"):
        upright(solid("L", 0), 13)


def test_the_shorter_side_decides_and_the_other_is_rounded_down():
    assert resize_short_side(Image.new("L", (100, 67)), 32, "bilinear").size == (47, 32)
    assert resize_short_side(Image.new("L", (67, 100)), 32, "bilinear").size == (32, 47)


def test_resize_and_crop_equal_torchvision_pixel_for_pixel():
    from torchvision.transforms import functional

    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (51, 70, 3), dtype=np.uint8))
    ours = center_crop(resize_short_side(image, 32, "bilinear"), (28, 28))
    theirs = functional.center_crop(functional.resize(image, 32), [28, 28])
    assert (np.asarray(ours) == np.asarray(theirs)).all()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no picture at .*gone\.png"):
        open_image(tmp_path / "gone.png", 3)


@pytest.mark.parametrize(
    "content", [b"", b"<!doctype html><html></html>", b"\x89PNG\r\n\x1a\n"], ids=len
)
def test_a_file_that_is_no_picture_is_named(tmp_path, content):
    (tmp_path / "fake.jpg").write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read picture .*fake\.jpg"):
        open_image(tmp_path / "fake.jpg", 3)


def test_a_truncated_jpeg_is_named_and_not_filled_with_grey(tmp_path):
    path = tmp_path / "cut.jpg"
    Image.effect_noise((64, 64), 50).save(path)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(DataError, match=r"cut\.jpg .*truncated"):
        open_image(path, 3)


@given(
    kind=st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"]),
    damage=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=8),
    keep=st.floats(0, 1),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_damaged_file_gives_a_picture_or_a_data_error(tmp_path_factory, kind, damage, keep):
    buffer = io.BytesIO()
    Image.effect_noise((16, 16), 60).convert("RGB").save(buffer, kind)
    data = bytearray(buffer.getvalue())
    for place, value in damage:
        data[int(place * len(data))] = value
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(data[: int(keep * len(data))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            assert open_image(path, 3).mode == "RGB"
        except DataError as error:
            assert str(path) in str(error)
