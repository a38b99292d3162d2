"""One description of the input, exact on its way through JSON."""

import json
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from reslab.data import Preprocessing
from reslab.data.preprocess import imagenet_preprocessing
from reslab.errors import DataError, UsageError

GREY = Preprocessing(channels=1, size=(2, 2), mean=(0.5,), std=(0.25,))
PER_PIXEL = Preprocessing(channels=1, size=(1, 2), mean=(((0.0, 1.0),),), std=(1.0,))


def test_normalize_is_pixel_over_255_less_mean_over_std():
    pixels = torch.tensor([[[[0, 255], [51, 102]]]], dtype=torch.uint8)
    expected = [[-2.0, 2.0], [(0.2 - 0.5) / 0.25, (0.4 - 0.5) / 0.25]]
    torch.testing.assert_close(GREY.normalize(pixels), torch.tensor([[expected]]))


def test_a_mean_per_pixel_is_subtracted_at_its_place():
    pixels = torch.tensor([[[[255, 255]]]], dtype=torch.uint8)
    assert PER_PIXEL.normalize(pixels).tolist() == [[[[1.0, 0.0]]]]


def test_normalize_leaves_the_pixels_alone():
    pixels = torch.full((1, 1, 2, 2), 9, dtype=torch.uint8)
    GREY.normalize(pixels)
    assert pixels.unique().tolist() == [9]


def test_imagenet_inputs_equal_torchvisions_to_the_bit():
    from torchvision.transforms import functional as F

    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (80, 99, 3), dtype=np.uint8))
    ours = imagenet_preprocessing(56)
    theirs = F.to_tensor(F.center_crop(F.resize(image, 64), [56, 56]))
    theirs = F.normalize(theirs, list(ours.mean), list(ours.std))
    assert torch.equal(ours.normalize(ours.from_image(image)[None])[0], theirs)


def test_without_resize_the_whole_picture_is_squeezed_to_size():
    pixels = GREY.from_image(Image.new("RGB", (10, 4), (9, 9, 9)))
    assert pixels.shape == (1, 2, 2)
    assert pixels.dtype == torch.uint8
    assert pixels.unique().tolist() == [9]


def test_a_file_and_its_picture_give_the_same_pixels(tmp_path):
    image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    image.save(tmp_path / "a.png")
    three = Preprocessing(channels=3, size=(4, 4), mean=(0.0,) * 3, std=(1.0,) * 3)
    assert torch.equal(three.from_image(tmp_path / "a.png"), three.from_image(image))
    assert torch.equal(three.from_image(str(tmp_path / "a.png")), three.from_image(image))
    assert three.from_image(image).permute(1, 2, 0).flatten().tolist() == list(range(48))


finite = st.floats(-1e6, 1e6)
positive = st.floats(1e-6, 1e6)


@given(
    mean=st.lists(finite, min_size=3, max_size=3), std=st.lists(positive, min_size=3, max_size=3)
)
@settings(max_examples=50, deadline=None)
def test_json_gives_back_every_bit(mean, std):
    there = Preprocessing(channels=3, size=(5, 7), mean=tuple(mean), std=tuple(std), resize=9)
    back = Preprocessing.from_json(json.loads(json.dumps(there.to_json())))
    assert back == there
    assert hash(back) == hash(there)


def test_a_mean_picture_survives_json_and_pickle():
    assert Preprocessing.from_json(json.loads(json.dumps(PER_PIXEL.to_json()))) == PER_PIXEL
    assert pickle.loads(pickle.dumps(PER_PIXEL)) == PER_PIXEL


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": (0.1, 0.2)}, r"mean does not fit: got \(2, 1, 1\)"),
        ({"std": (0.0,)}, "std is wrong"),
        ({"std": (1.0, 1.0)}, "std is wrong"),
        ({"resize": 1}, "smaller than the crop: got 1, expected 2 or more"),
        ({"interpolation": "cubic"}, "interpolation is unknown: got 'cubic'"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(change, message):
    with pytest.raises((DataError, UsageError), match=message):
        Preprocessing.from_json(GREY.to_json() | change)


def test_unknown_keys_of_a_foreign_file_are_refused():
    with pytest.raises(DataError, match="no preprocessing"):
        Preprocessing.from_json({"channels": 1, "color": "blue"})


def test_pictures_of_other_channels_or_size_are_refused():
    with pytest.raises(DataError, match=r"do not fit .* got \(1, 3, 2, 2\)"):
        GREY.normalize(torch.zeros(1, 3, 2, 2, dtype=torch.uint8))
    with pytest.raises(DataError, match=r"per pixel .* got \(2, 2\), expected \(1, 2\)"):
        PER_PIXEL.normalize(torch.zeros(1, 1, 2, 2, dtype=torch.uint8))
