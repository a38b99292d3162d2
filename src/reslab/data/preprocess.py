"""How a picture becomes the tensor a net reads: one description that travels with the weights.

Training, evaluation, prediction and serving all go through this class, so that predicting a folder
gives what evaluating it gave. Augmentation is in `augment`, statistics of a data set in `source`.
"""

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from PIL import Image
from torch import Tensor

from reslab.data.picture import (
    INTERPOLATIONS,
    center_crop,
    open_image,
    resize_short_side,
    to_pixels,
    upright,
)
from reslab.errors import DataError, UsageError

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "Preprocessing", "imagenet_preprocessing"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Mean = tuple[float, ...] | tuple[tuple[tuple[float, ...], ...], ...]


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """Picture to input, in plain numbers.

    `size` is (height, width) of the input. `mean` has one value a channel, or one a pixel as
    [C][H][W] (the per-pixel mean of the 2015 paper); `std` one a channel; both on the scale of
    pixel / 255, as in torchvision. `resize` is the shorter side before the centre crop; with None
    the picture is resized to `size` as a whole.

    Raises DataError when these do not fit together.

    >>> grey = Preprocessing(channels=1, size=(8, 8), mean=(0.3,), std=(0.4,))
    >>> Preprocessing.from_json(grey.to_json()) == grey
    True
    """

    channels: int
    size: tuple[int, int]
    mean: Mean
    std: tuple[float, ...]
    resize: int | None = None
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        if self.interpolation not in INTERPOLATIONS:
            known = ", ".join(INTERPOLATIONS)
            raise UsageError(
                "interpolation is unknown", got=self.interpolation, expected=f"one of {known}"
            )
        if self.resize is not None and self.resize < max(self.size):
            raise UsageError(
                "resize is smaller than the crop",
                got=self.resize,
                expected=f"{max(self.size)} or more",
            )
        shape = tuple(self._mean.shape)
        if shape not in {(self.channels, 1, 1), (self.channels, *self.size)}:
            expected = f"one value for each of {self.channels} channels, or for each pixel"
            raise DataError("mean does not fit", got=shape, expected=expected)
        if len(self.std) != self.channels or not min(self.std) > 0:
            raise DataError("std is wrong", got=self.std, expected="one above 0 for each channel")

    @functools.cached_property
    def _mean(self) -> Tensor:
        mean = torch.tensor(self.mean, dtype=torch.float32)
        return mean[:, None, None] if mean.ndim == 1 else mean

    @functools.cached_property
    def _std(self) -> Tensor:
        return torch.tensor(self.std, dtype=torch.float32)[:, None, None]

    def normalize(self, images: Tensor) -> Tensor:
        """Inputs float32 [N, C, H, W] from pixels uint8 [N, C, H, W]: (pixel / 255 - mean) / std.

        Raises DataError when the channels differ, or the size does and the mean is per pixel.
        """
        if images.ndim != 4 or images.shape[1] != self.channels:
            raise DataError(
                "these pictures do not fit the preprocessing",
                got=tuple(images.shape),
                expected=f"(N, {self.channels}, H, W)",
            )
        if self._mean.shape[1:] not in ((1, 1), images.shape[2:]):
            raise DataError(
                "the mean is per pixel and the pictures have another size",
                got=tuple(images.shape[2:]),
                expected=self.size,
            )
        mean, std = self._mean.to(images.device), self._std.to(images.device)
        inputs = images.to(torch.float32).div_(255).sub_(mean)
        return inputs if self.std == (1.0,) * self.channels else inputs.div_(std)

    def from_image(self, image: Image.Image | str | Path) -> Tensor:
        """Pixels uint8 [C, H, W] of `size`, from a picture or its file.

        The picture is turned upright (EXIF) and brought to grey or RGB of 8 bits. Raises DataError,
        naming the file, when it cannot be read whole.
        """
        if isinstance(image, Image.Image):
            picture = upright(image, self.channels)
        else:
            picture = open_image(Path(image), self.channels)
        height, width = self.size
        if self.resize is not None:
            picture = resize_short_side(picture, self.resize, self.interpolation)
            return to_pixels(center_crop(picture, self.size))
        if picture.size != (width, height):
            picture = picture.resize((width, height), INTERPOLATIONS[self.interpolation])
        return to_pixels(picture)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` gives back an equal Preprocessing, to the last bit."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The Preprocessing of `to_json`; DataError when keys are missing or unknown."""
        try:
            return cls(**{key: _tuples(value) for key, value in values.items()})
        except TypeError as error:
            raise DataError(f"this is no preprocessing ({error})", got=sorted(values)) from error


def imagenet_preprocessing(image_size: int = 224) -> Preprocessing:
    """ImageNet's channel statistics, shorter side image_size / 0.875, centre crop.

    >>> imagenet_preprocessing(224).resize
    256
    """
    return Preprocessing(
        channels=3,
        size=(image_size, image_size),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        resize=round(image_size / 0.875),
    )


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list | tuple) else value
