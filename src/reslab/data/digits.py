"""scikit-learn's handwritten digits: 1,797 pictures of 8 x 8, embedded, no download."""

from pathlib import Path

import torch

from reslab.data.source import SOURCES, ArraySplit, Data, Source, array_sums

__all__ = ["load_digits"]

_LARGEST = 16


def load_digits(root: Path | None = None, download: bool = False) -> Data:
    """The digits: 1,437 for training; every fifth picture, 360 in all, for the test.

    One channel; scikit-learn's values v in 0..16 become round(v * 255 / 16). They come with
    scikit-learn: `root` and `download`, which every source takes, change nothing.

    >>> data = load_digits()
    >>> data.classes[:3], tuple(data.test.images.shape)
    (('0', '1', '2'), (360, 1, 8, 8))
    """
    from sklearn.datasets import load_digits as load_bundle

    bundle = load_bundle()
    values = torch.from_numpy(bundle.images).mul(255 / _LARGEST).round().to(torch.uint8)
    images, labels = values[:, None], torch.from_numpy(bundle.target).long()
    is_test = torch.arange(len(labels)) % 5 == 0
    train = ArraySplit(images[~is_test], labels[~is_test])
    test = ArraySplit(images[is_test], labels[is_test])
    return Data("digits", tuple("0123456789"), train, test, array_sums(train, test))


SOURCES.add(
    "digits", Source("handwritten digits, grey, 8x8: 10 classes, 1,797 pictures", load_digits)
)
