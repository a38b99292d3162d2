"""Augmentation of a batch equals a plain loop over its pictures, pixel for pixel."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from reslab.data import Augment, FolderAugment, Preprocessing
from reslab.errors import UsageError


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def plain(augment, batch, source):
    """The same draws in the same order, then one picture after the other."""
    count, _, height, width = batch.shape
    pad, tops, lefts, mirrored = augment.crop_padding, None, None, None
    if pad or augment.flip:
        tops = torch.randint(2 * pad + 1, (count,), generator=source)
        lefts = torch.randint(2 * pad + 1, (count,), generator=source)
        draws = torch.rand(count, generator=source)
        mirrored = [augment.flip and float(draw) < 0.5 for draw in draws]
    if augment.cutout:
        rows = torch.randint(height, (count,), generator=source)
        columns = torch.randint(width, (count,), generator=source)
    pictures = []
    for index, image in enumerate(batch):
        if tops is not None:
            large = torch.zeros(image.shape[0], height + 2 * pad, width + 2 * pad)
            large[:, pad : pad + height, pad : pad + width] = image
            top, left = tops[index], lefts[index]
            image = large[:, top : top + height, left : left + width]
            image = image.flip(2) if mirrored[index] else image
        if augment.cutout:
            image = image.clone()
            for row in range(height):
                for column in range(width):
                    down = row - (rows[index] - augment.cutout // 2)
                    right = column - (columns[index] - augment.cutout // 2)
                    if 0 <= down < augment.cutout and 0 <= right < augment.cutout:
                        image[:, row, column] = 0
        pictures.append(image)
    return torch.stack(pictures)


@given(
    augment=st.builds(
        Augment, crop_padding=st.integers(0, 4), flip=st.booleans(), cutout=st.integers(0, 9)
    ),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 7), st.integers(1, 7)),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_a_batch_at_once_equals_one_picture_at_a_time(augment, shape, seed):
    batch = torch.randn(shape, generator=generator(seed))
    assert torch.equal(augment(batch, generator(seed)), plain(augment, batch, generator(seed)))


def test_the_border_that_comes_in_is_zero():
    batch = torch.ones(400, 1, 2, 2)
    shifted = Augment(crop_padding=1)(batch, generator())
    sums = shifted.sum((1, 2, 3))
    assert set(sums.tolist()) == {1.0, 2.0, 4.0}
    assert (sums == 4).float().mean() == pytest.approx(1 / 9, abs=0.05)


def test_half_of_the_pictures_are_mirrored_and_none_when_not_asked():
    batch = torch.arange(2.0).expand(1000, 1, 1, 2)
    share = (Augment(flip=True)(batch, generator())[:, 0, 0, 0] == 1).float().mean()
    assert share == pytest.approx(0.5, abs=0.05)
    assert torch.equal(Augment(crop_padding=0)(batch, generator()), batch)


def test_cutout_clears_a_square_that_the_border_may_cut():
    batch = torch.ones(500, 2, 8, 8)
    cleared = (Augment(cutout=4)(batch, generator()) == 0).sum((2, 3))
    assert torch.equal(cleared[:, 0], cleared[:, 1])
    assert (cleared.min(), cleared.max()) == (4, 16)


def test_the_batch_given_is_left_alone():
    batch = torch.ones(3, 1, 4, 4)
    Augment(crop_padding=2, flip=True, cutout=3)(batch, generator())
    assert batch.min() == 1


def test_negative_sizes_are_refused():
    with pytest.raises(UsageError, match="crop_padding is wrong: got -1"):
        Augment(crop_padding=-1)


ROUGH = Preprocessing(channels=3, size=(28, 28), mean=(0.0,) * 3, std=(1.0,) * 3, resize=32)


def rough_picture():
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("crop", ["random_resized", "short_side", "center"])
def test_crops_of_a_picture_have_the_size_of_the_input(crop):
    pixels = FolderAugment(crop=crop)(rough_picture(), ROUGH)
    assert (pixels.shape, pixels.dtype) == ((3, 28, 28), torch.uint8)


def test_the_centre_crop_is_that_of_evaluation():
    image = rough_picture()
    augment = FolderAugment(crop="center", flip=False)
    assert torch.equal(augment(image, ROUGH), ROUGH.from_image(image))


def test_a_mirrored_picture_is_the_mirror():
    image = rough_picture()
    expected = ROUGH.from_image(image)
    found = [FolderAugment(crop="center", flip=True)(image, ROUGH) for _ in range(40)]
    kinds = {torch.equal(pixels, expected) for pixels in found}
    assert kinds == {True, False}
    assert all(torch.equal(p, expected) or torch.equal(p.flip(2), expected) for p in found)


def test_the_short_side_lies_between_those_of_the_2015_paper(monkeypatch):
    from reslab.data import augment

    sides = []
    resize = augment.resize_short_side

    def noting(image, side, kind):
        sides.append(side)
        return resize(image, side, kind)

    monkeypatch.setattr(augment, "resize_short_side", noting)
    for _ in range(300):
        FolderAugment(crop="short_side")(rough_picture(), ROUGH)
    assert (min(sides), max(sides)) == (32, 60)


def test_an_unknown_crop_is_refused():
    with pytest.raises(UsageError, match="crop is unknown: got 'middle'"):
        FolderAugment(crop="middle")
