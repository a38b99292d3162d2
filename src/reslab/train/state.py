"""What must survive a restart: one object, saved and loaded in one place."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from reslab.recipe import Recipe
from reslab.seeding import restore_random_state, save_random_state
from reslab.train.optim import build_ema, build_optimizer
from reslab.train.step import Stepper

__all__ = ["Meter", "Progress", "TrainState"]


@dataclass
class Meter:
    """Sums of loss and mistakes over scored targets, and the samples and seconds they took."""

    loss: float = 0.0
    wrong: int = 0
    scored: int = 0
    samples: int = 0
    seconds: float = 0.0

    def add(self, loss: float, wrong: int, scored: int, *, samples: int) -> None:
        """Count a batch with this mean loss over its `scored` targets."""
        self.loss += loss * scored
        self.wrong += wrong
        self.scored += scored
        self.samples += samples

    def take(self) -> tuple[float, float]:
        """Mean loss and error in percent since the last call; starts again from zero."""
        count = max(1, self.scored)
        means = self.loss / count, 100 * self.wrong / count
        self.loss, self.wrong, self.scored, self.samples, self.seconds = 0.0, 0, 0, 0, 0.0
        return means


@dataclass
class Progress:
    """Where a run stands: optimizer steps done, and the next batch as (epoch, batch)."""

    iteration: int = 0
    epoch: int = 0
    batch: int = 0
    is_warm: bool = False
    recent_error: float = 100.0
    best_error: float | None = None
    seconds: float = 0.0
    log: Meter = field(default_factory=Meter)
    point: Meter = field(default_factory=Meter)

    def advance(self, batches_per_epoch: int) -> None:
        """One more step done."""
        self.iteration += 1
        self.batch += 1
        if self.batch == batches_per_epoch:
            self.epoch, self.batch = self.epoch + 1, 0

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Progress":
        """Progress from its plain form."""
        meters = {name: Meter(**values[name]) for name in ("log", "point")}
        return cls(**(values | meters))


class TrainState:
    """Model, optimizer, average of weights, loss scaler, random state and progress of a run."""

    def __init__(self, model: nn.Module, recipe: Recipe, device: torch.device) -> None:
        layout = torch.channels_last if recipe.channels_last else torch.preserve_format
        self.device = device
        self.model = model.to(device=device).to(memory_format=layout)
        self.optimizer = build_optimizer(self.model, recipe)
        self.ema: AveragedModel | None = None
        if recipe.ema_decay is not None:
            self.ema = build_ema(self.model, recipe.ema_decay)
        self.stepper = Stepper(self.model, self.optimizer, recipe, device)
        self.progress = Progress()

    @property
    def evaluated(self) -> nn.Module:
        """The net that is evaluated and kept: the average where there is one."""
        return self.ema.module if self.ema is not None else self.model

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values only."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "ema": self.ema.state_dict() if self.ema is not None else None,
            "scaler": self.stepper.scaler.state_dict(),
            "random": save_random_state(self.device),
            "progress": dataclasses.asdict(self.progress),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to where `state_dict` was called."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.ema is not None:
            self.ema.load_state_dict(state["ema"])
        if state["scaler"]:
            self.stepper.scaler.load_state_dict(state["scaler"])
        restore_random_state(state["random"], self.device)
        self.progress = Progress.from_dict(state["progress"])
