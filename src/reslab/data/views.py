"""What a net looks at when it is evaluated: one view of a picture, or several to average over.

single; flip (2, the picture and its mirror); ten-crop (10); multi-scale (5, whole pictures with
shorter sides in the ratio 224:256:384:480:640, for nets that end in global pooling; He 2015,
section 3.4). Order within a tuple of views never matters to the score.
"""

from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from reslab.data.picture import resize_short_side, to_pixels
from reslab.data.preprocess import Preprocessing
from reslab.errors import UsageError

__all__ = ["SCALES", "VIEWS", "array_views", "check_view", "picture_views", "ten_crop"]

VIEWS = ("single", "flip", "ten-crop", "multi-scale")
SCALES = (1.0, 256 / 224, 384 / 224, 480 / 224, 640 / 224)
_PADDING = 1 / 8  # 4 pixels around 32, as in the papers' training crops


def check_view(view: str) -> None:
    """UsageError when `view` is not one of VIEWS."""
    if view not in VIEWS:
        raise UsageError("view is unknown", got=view, expected=f"one of {', '.join(VIEWS)}")


def ten_crop(batch: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
    """Four corners and the centre of [N, C, H, W], each [N, C, *size], then their mirrors.

    >>> import torch
    >>> len(ten_crop(torch.zeros(1, 3, 40, 40), (32, 32)))
    10
    """
    down, right = (have - want for have, want in zip(batch.shape[2:], size, strict=True))
    corners = [(0, 0), (0, right), (down, 0), (down, right), (round(down / 2), round(right / 2))]
    crops = [batch[:, :, top : top + size[0], left : left + size[1]] for top, left in corners]
    return tuple(crops) + tuple(crop.flip(3) for crop in crops)


def array_views(batch: Tensor, view: str) -> tuple[Tensor, ...]:
    """Views of normalised arrays [N, C, H, W].

    Ten-crop cuts from the picture with an eighth of its height in zeros around (4 of 32);
    multi-scale enlarges bilinearly.
    """
    if view == "flip":
        return batch, batch.flip(3)
    if view == "ten-crop":
        height, width = batch.shape[2:]
        around = max(1, round(height * _PADDING))
        return ten_crop(F.pad(batch, (around,) * 4), (height, width))
    if view == "multi-scale":
        return tuple(_enlarged(batch, scale) for scale in SCALES)
    return (batch,)


def _enlarged(batch: Tensor, scale: float) -> Tensor:
    height, width = (round(n * scale) for n in batch.shape[2:])
    if (height, width) == tuple(batch.shape[2:]):
        return batch
    return F.interpolate(batch, (height, width), mode="bilinear", align_corners=False)


def picture_views(
    image: Image.Image, preprocessing: Preprocessing, view: str
) -> tuple[Tensor, ...]:
    """Views uint8 [C, H, W] of an upright picture of a folder.

    Ten-crop cuts from the picture with its shorter side at `preprocessing.resize`; multi-scale gives
    the whole picture at each scale, so the sizes differ.
    """
    kind = preprocessing.interpolation
    if view == "multi-scale":
        sides = [round(max(preprocessing.size) * scale) for scale in SCALES]
        return tuple(to_pixels(resize_short_side(image, side, kind)) for side in sides)
    if view == "ten-crop":
        side = preprocessing.resize or max(preprocessing.size)
        pixels = to_pixels(resize_short_side(image, side, kind))
        return tuple(crop[0] for crop in ten_crop(pixels[None], preprocessing.size))
    pixels = preprocessing.from_image(image)
    return (pixels, pixels.flip(2)) if view == "flip" else (pixels,)
