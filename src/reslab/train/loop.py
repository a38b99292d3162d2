"""The training loop. Read this first: everything else in `train` serves these paragraphs."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from reslab.data import Batch, TrainLoader
from reslab.errors import NonFiniteLossError, RunError
from reslab.recipe import Recipe
from reslab.records import EvalResult
from reslab.train.checkpoint import Checkpoints
from reslab.train.observers import Observer
from reslab.train.schedule import learning_rate
from reslab.train.state import TrainState

__all__ = ["Plan", "RunInterrupted", "train"]


class RunInterrupted(RunError):  # noqa: N818 (as KeyboardInterrupt is named)
    """The run was asked to stop; its state is saved."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one run does and when, in optimizer steps."""

    recipe: Recipe
    loader: TrainLoader
    total: int
    depth: int
    evaluate: Callable[[nn.Module], EvalResult]
    keep_best: Callable[[nn.Module], None]
    checkpoints: Checkpoints
    observers: tuple[Observer, ...]
    eval_every: int
    log_every: int
    checkpoint_every: int


def train(state: TrainState, plan: Plan) -> None:
    """Train from where `state` stands to the end of the plan.

    Raises NonFiniteLossError at the first loss that is not finite and RunInterrupted after Ctrl-C
    or SIGTERM, once the state is saved.
    """
    progress = state.progress
    state.model.train()
    mark = time.perf_counter()
    with _stop_requests() as stop_wanted:
        while progress.iteration < plan.total:
            for batch in plan.loader.epoch(progress.epoch, start=progress.batch):
                lr = _step(state, plan, batch)
                progress.log.seconds += time.perf_counter() - mark

                done = progress.iteration
                if done % plan.log_every == 0 or done == plan.total:
                    _log(state, plan, lr)
                if done % plan.eval_every == 0 or done == plan.total:
                    _evaluate(state, plan, lr)
                if done % plan.checkpoint_every == 0 or done == plan.total:
                    _save(state, plan)
                progress.seconds += time.perf_counter() - mark
                mark = time.perf_counter()

                if stop_wanted() and done < plan.total:
                    if done % plan.checkpoint_every:
                        _save(state, plan)
                    raise RunInterrupted(f"stopped at iteration {done} of {plan.total}")
                if done == plan.total:
                    return


def _save(state: TrainState, plan: Plan) -> None:
    # A finite loss can have an infinite gradient; what it leaves must not become a checkpoint.
    for name, parameter in state.model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise NonFiniteLossError(
                f"parameter {name} is not finite after step {state.progress.iteration}",
                hint="The last checkpoint is from before; try a lower lr, a warm-up or clip_norm.",
            )
    plan.checkpoints.save(state.state_dict(), state.progress.iteration)


def _step(state: TrainState, plan: Plan, batch: Batch) -> float:
    progress = state.progress
    is_warm = progress.is_warm or plan.depth < plan.recipe.warmup_min_depth
    lr = learning_rate(plan.recipe, progress.iteration, plan.total, is_warm=is_warm)
    loss, wrong = state.stepper(batch, lr)
    if not math.isfinite(loss):
        _refuse(state, batch, loss)
    if state.ema is not None:
        state.ema.update_parameters(state.model)
    scored = batch.scored
    for meter in (progress.log, progress.point):
        meter.add(loss, wrong, scored, samples=len(batch.targets))
    progress.recent_error += 0.05 * (100 * wrong / scored - progress.recent_error)
    progress.is_warm = progress.is_warm or progress.recent_error < plan.recipe.warmup_error
    progress.advance(plan.loader.batches_per_epoch)
    return lr


def _refuse(state: TrainState, batch: Batch, loss: float) -> None:
    where = state.stepper.first_non_finite(batch)
    ids = ", ".join(map(str, batch.ids[:5].tolist()))
    raise NonFiniteLossError(
        f"the loss is {loss} at step {state.progress.iteration + 1} (epoch "
        f"{state.progress.epoch}, batch {state.progress.batch}, samples {ids}, ...): the first "
        f"value that is not finite is {where}",
        hint="The last checkpoint is from before; try a lower lr, a warm-up or clip_norm.",
    )


def _log(state: TrainState, plan: Plan, lr: float) -> None:
    meter = state.progress.log
    speed = meter.samples / max(meter.seconds, 1e-9)
    loss, error = meter.take()
    record = {"loss": loss, "error": error, "lr": lr, "samples_per_second": speed}
    place = {"iteration": state.progress.iteration, "epoch": state.progress.epoch}
    _tell(plan, {"kind": "train"} | place | record)


def _evaluate(state: TrainState, plan: Plan, lr: float) -> None:
    train_loss, train_error = state.progress.point.take()
    result = plan.evaluate(state.evaluated)
    best = state.progress.best_error
    if best is None or result.top1_error < best:
        state.progress.best_error = result.top1_error
        plan.keep_best(state.evaluated)
    record = {"train_error": train_error, "train_loss": train_loss, "lr": lr}
    scores = {"test_error": result.top1_error, "test_loss": result.loss}
    _tell(plan, {"kind": "eval", "iteration": state.progress.iteration} | record | scores)


def _tell(plan: Plan, record: dict[str, Any]) -> None:
    for observer in plan.observers:
        observer.record(record)


@contextlib.contextmanager
def _stop_requests() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or SIGTERM came; a second Ctrl-C stops at once."""
    wanted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number: int, frame: object) -> None:
        if wanted:
            raise KeyboardInterrupt
        wanted.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(wanted)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
