"""Views of a picture for evaluation, against hand-made ones."""

import numpy as np
import pytest
import torch
from PIL import Image

from reslab.data.preprocess import imagenet_preprocessing
from reslab.data.views import SCALES, VIEWS, array_views, check_view, picture_views, ten_crop
from reslab.errors import UsageError

BATCH = torch.arange(2 * 3 * 6 * 6, dtype=torch.float32).view(2, 3, 6, 6) + 1


def test_five_crops_are_the_corners_and_the_centre_and_then_their_mirrors():
    crops = ten_crop(BATCH, (2, 4))
    expected = [
        BATCH[:, :, :2, :4],
        BATCH[:, :, :2, 2:],
        BATCH[:, :, 4:, :4],
        BATCH[:, :, 4:, 2:],
        BATCH[:, :, 2:4, 1:5],
    ]
    for crop, mirror, wanted in zip(crops[:5], crops[5:], expected, strict=True):
        assert torch.equal(crop, wanted)
        assert torch.equal(mirror, wanted.flip(3))


def test_ten_crop_equals_torchvisions():
    from torchvision.transforms import functional

    theirs = functional.ten_crop(BATCH, [4, 2])
    assert {v.numpy().tobytes() for v in theirs} == {
        v.contiguous().numpy().tobytes() for v in ten_crop(BATCH, (4, 2))
    }


@pytest.mark.parametrize(("side", "zeros"), [(32, 4), (8, 1), (64, 8)])
def test_ten_crops_of_arrays_have_an_eighth_of_zeros_around(side, zeros):
    batch = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    views = array_views(batch, "ten-crop")
    assert len(views) == 10
    assert torch.equal(views[4], batch)
    assert torch.equal(views[9], batch.flip(3))
    corner = torch.zeros(2, 3, side, side)
    corner[:, :, zeros:, zeros:] = batch[:, :, :-zeros, :-zeros]
    assert torch.equal(views[0], corner)


def test_single_and_flip_of_arrays():
    assert torch.equal(array_views(BATCH, "single")[0], BATCH)
    views = array_views(BATCH, "flip")
    assert len(views) == 2
    assert torch.equal(views[1], BATCH.flip(3))


def test_scales_of_arrays_keep_a_constant_picture_constant():
    views = array_views(torch.full((1, 3, 28, 28), 2.0), "multi-scale")
    assert [v.shape[2] for v in views] == [28, 32, 48, 60, 80]
    assert all(torch.allclose(v, torch.tensor(2.0)) for v in views)


def test_the_scales_are_those_of_the_2015_paper():
    assert [round(224 * scale) for scale in SCALES] == [224, 256, 384, 480, 640]


@pytest.fixture
def image():
    pixels = np.random.default_rng(0).integers(0, 256, (40, 64, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


PREPROCESSING = imagenet_preprocessing(28)


def test_the_first_views_of_a_picture_are_what_prediction_sees(image):
    (single,) = picture_views(image, PREPROCESSING, "single")
    assert torch.equal(single, PREPROCESSING.from_image(image))
    first, mirror = picture_views(image, PREPROCESSING, "flip")
    assert torch.equal(first, single)
    assert torch.equal(mirror, single.flip(2))


def test_the_centre_of_ten_crops_of_a_picture_is_the_single_view(image):
    views = picture_views(image, PREPROCESSING, "ten-crop")
    assert [v.shape for v in views] == [(3, 28, 28)] * 10
    assert torch.equal(views[4], PREPROCESSING.from_image(image))


def test_scales_of_a_picture_show_all_of_it(image):
    views = picture_views(image, PREPROCESSING, "multi-scale")
    assert [tuple(v.shape[1:]) for v in views] == [
        (28, 44),
        (32, 51),
        (48, 76),
        (60, 96),
        (80, 128),
    ]


def test_an_unknown_view_is_refused():
    for view in VIEWS:
        check_view(view)
    with pytest.raises(UsageError, match="view is unknown: got 'ten'"):
        check_view("ten")
