"""One picture file: opened whole, turned upright, in 8-bit grey or RGB, resized, as a tensor."""

import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from reslab.errors import DataError

__all__ = [
    "INTERPOLATIONS",
    "UNREADABLE",
    "center_crop",
    "open_image",
    "reason_of",
    "resize_short_side",
    "to_pixels",
    "upright",
]

INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
# What Pillow raises for files that are no picture, cut, damaged, or far too large.
UNREADABLE = (
    OSError,
    EOFError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)

_MODES = {1: "L", 3: "RGB"}
_WITH_ALPHA = ("RGBA", "LA", "PA", "La", "RGBa")


def open_image(path: Path, channels: int) -> Image.Image:
    """The picture in a file, decoded and upright, of mode L (1 channel) or RGB (3).

    Raises DataError, naming the file, when it cannot be read whole.
    """
    try:
        with Image.open(path) as image:
            image.load()
            return upright(image, channels)
    except FileNotFoundError:
        raise DataError(f"there is no picture at {path}", hint="Check the path.") from None
    except DataError:
        raise
    except UNREADABLE as error:
        raise DataError(
            f"cannot read picture {path} ({reason_of(error, path)})",
            hint="`reslab data check FOLDER` lists every such file.",
        ) from error


def reason_of(error: BaseException, path: Path) -> str:
    """What Pillow had against a file, in one line and without its path."""
    if isinstance(error, UnidentifiedImageError):
        return "not in a format that Pillow knows"
    return " ".join(str(error).split()).replace(repr(str(path)), "the file")


def upright(image: Image.Image, channels: int) -> Image.Image:
    """The picture turned by its EXIF orientation, of mode L or RGB.

    Transparency is laid on white; 16-bit grey is scaled to 8 bits.
    """
    if channels not in _MODES:
        raise DataError("pictures have 1 or 3 channels", got=channels)
    image = ImageOps.exif_transpose(image)
    if image.mode == _MODES[channels] and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        image = _to_8_bits(image)
    if image.mode in _WITH_ALPHA or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image.convert(_MODES[channels])


def _to_8_bits(image: Image.Image) -> Image.Image:
    """Grey of 16 bits scaled to 8 (Pillow's own conversion clips at 255); floats rounded."""
    values = np.asarray(image).astype(np.float64) / (1 if image.mode == "F" else 257)
    return Image.fromarray(values.clip(0, 255).round().astype(np.uint8))


def resize_short_side(image: Image.Image, side: int, interpolation: str) -> Image.Image:
    """The picture with its shorter side at `side` pixels, the other in proportion (rounded down).

    >>> resize_short_side(Image.new("L", (30, 20)), 10, "bilinear").size
    (15, 10)
    """
    short = min(image.size)
    if short == side:
        return image
    width, height = (side * edge // short for edge in image.size)
    return image.resize((width, height), INTERPOLATIONS[interpolation])


def center_crop(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The middle of a picture, `size` is (height, width); odd margins are rounded to even."""
    height, width = size
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))


def to_pixels(image: Image.Image) -> Tensor:
    """uint8 [C, H, W] of an L or RGB picture."""
    array = np.array(image)
    planes = torch.from_numpy(array if array.ndim == 3 else array[..., None])
    return planes.permute(2, 0, 1).contiguous()
