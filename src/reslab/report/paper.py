"""What He, Zhang, Ren and Sun (2015, arXiv 1512.03385) published, to stand beside our figures.

CIFAR-10 is table 6 and Fig. 6 (test error, %); ImageNet is table 2 (top-1, ten crops, %).
"""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Published", "is_same_data", "published_for"]


@dataclass(frozen=True)
class Published:
    """One net of the paper: figures as printed there, and what the text says of its training."""

    data: str
    test_error: str = ""
    parameters: str = ""
    training: str = ""


def _cifar(test_error: str = "", parameters: str = "", training: str = "") -> Published:
    return Published("CIFAR-10", test_error, parameters, training)


_IMPROVES = "below the shallower residual nets"
_DEGRADES = "above the shallower plain nets"

_PUBLISHED = {
    ("plain", 20): _cifar(training="lowest of the plain nets"),
    ("plain", 32): _cifar(training=_DEGRADES),
    ("plain", 44): _cifar(training=_DEGRADES),
    ("plain", 56): _cifar(training=_DEGRADES),
    ("plain", 110): _cifar(training="stays above 60 %"),
    ("resnet", 20): _cifar("8.75", "0.27 M", "highest of the residual nets"),
    ("resnet", 32): _cifar("7.51", "0.46 M", _IMPROVES),
    ("resnet", 44): _cifar("7.17", "0.66 M", _IMPROVES),
    ("resnet", 56): _cifar("6.97", "0.85 M", _IMPROVES),
    ("resnet", 110): _cifar("6.43", "1.7 M", _IMPROVES),
    ("resnet", 1202): _cifar("7.93", "19.4 M", "below 0.1 %"),
    ("plain", 18): Published("ImageNet", "27.94"),
    ("plain", 34): Published("ImageNet", "28.54", training="above plain-18 throughout"),
    ("resnet", 18): Published("ImageNet", "27.88"),
    ("resnet", 34): Published("ImageNet", "25.03", training="below resnet-18"),
}


def published_for(kind: str, depth: int) -> Published | None:
    """The paper's figures for a net of this kind and depth, if it has any.

    >>> published_for("resnet", 110).test_error
    '6.43'
    """
    return _PUBLISHED.get((kind, depth))


def is_same_data(data: str, published: Iterable[Published]) -> bool:
    """Whether a study on `data` can be compared, figure by figure, with the paper's.

    >>> is_same_data("cifar10", [published_for("plain", 20)])
    True
    """
    mine = "".join(c for c in data.lower() if c.isalnum())
    return all("".join(c for c in p.data.lower() if c.isalnum()) == mine for p in published)
