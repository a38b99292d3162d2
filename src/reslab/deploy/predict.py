"""Classes of single pictures, by the same preprocessing that evaluation uses."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from reslab.errors import WeightsError
from reslab.train.evaluate import evaluation_mode, view_logits
from reslab.train.trained import Trained

__all__ = ["Prediction", "predict"]


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The most probable classes of one picture, best first; probabilities add up to 1 over all."""

    path: str
    label: str
    probability: float
    top: tuple[tuple[str, float], ...]


def predict(trained: Trained, paths: Iterable[str | Path], *, top: int = 5) -> Iterator[Prediction]:
    """Predict pictures one by one, in order, in fp32.

    Raises DataError (names the picture) and WeightsError when the weights carry no preprocessing.
    """
    if trained.preprocessing is None:
        raise WeightsError(
            "these weights do not say how pictures become inputs",
            hint="Use weights that reslab trained, or pass --mean and --std with --size.",
        )
    device = next(trained.model.parameters()).device
    with evaluation_mode(trained.model):
        for path in paths:
            image = trained.preprocessing.from_image(Path(path))
            inputs = trained.preprocessing.normalize(image[None])
            scores = view_logits(trained.model, (inputs,), device)[0].exp()
            best = torch.topk(scores, min(top, len(scores)))
            named = tuple(
                (_name(trained, int(index)), float(value))
                for value, index in zip(best.values, best.indices, strict=True)
            )
            yield Prediction(path=str(path), label=named[0][0], probability=named[0][1], top=named)


def _name(trained: Trained, index: int) -> str:
    return trained.classes[index] if trained.classes else str(index)
