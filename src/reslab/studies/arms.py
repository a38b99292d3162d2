"""Training the arms of a study in parallel processes, each in a run folder that can be resumed.

An arm that is finished is not trained again; one that was interrupted goes on.
"""

import concurrent.futures
import logging
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from reslab import files
from reslab.data import Data, build_eval_loader
from reslab.errors import RunError
from reslab.examine.gradients import measure_gradient_norms
from reslab.models.cost import count_parameters
from reslab.recipe import Recipe
from reslab.records import ArmResult, LayerNorm, from_json, to_json
from reslab.train.evaluate import evaluate_batches
from reslab.train.fit import build_net, data_of, fit, resume
from reslab.train.loop import RunInterrupted
from reslab.train.run import RunFolder
from reslab.train.session import eval_batch_size, preprocessing_of, with_holdout

__all__ = ["Arm", "ArmProgress", "run_arms"]

_log = logging.getLogger("reslab")


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One training of a study: its recipe names model, data and seed; its folder holds the run."""

    name: str
    kind: str
    depth: int
    recipe: Recipe
    folder: Path


@dataclass(frozen=True)
class ArmProgress:
    """An arm reached `iteration` of `total`; `error` is its running training error in percent."""

    arm: str
    seed: int
    iteration: int
    total: int
    error: float | None


def run_arms(
    arms: Sequence[Arm], *, jobs: int, on_progress: Callable[[ArmProgress], None]
) -> list[ArmResult]:
    """Train every arm that is not finished, `jobs` at a time; results in the order of `arms`.

    Raises RunInterrupted when asked to stop (each arm's state is saved by then), RunError when a
    process dies, and whatever error an arm ends with.
    """
    for arm in arms:
        if RunFolder(arm.folder).exists():
            _check_recipe(arm)
    waiting = [arm for arm in arms if not _result_path(arm).is_file()]
    # The longest first, so that no core idles at the end.
    waiting.sort(key=lambda arm: -arm.depth)
    if waiting:
        _train_all(waiting, min(jobs, len(waiting)), on_progress)
    return [_load_result(arm) for arm in arms]


def _train_all(arms: list[Arm], jobs: int, on_progress: Callable[[ArmProgress], None]) -> None:
    context = multiprocessing.get_context("spawn")
    events: Any = context.Queue()
    stop = context.Event()
    threads = max(1, torch.get_num_threads() // jobs)
    pool = concurrent.futures.ProcessPoolExecutor(
        jobs, context, initializer=_start_worker, initargs=(events, stop, threads)
    )
    left = list(arms)
    running: set[concurrent.futures.Future[None]] = set()
    try:
        while left or running:
            # No more than there are processes: what a pool has queued it cannot be made to forget.
            while left and len(running) < jobs:
                running.add(pool.submit(_train_arm, left.pop(0)))
            done, running = concurrent.futures.wait(running, timeout=0.2)
            _drain(events, on_progress)
            for future in done:
                future.result()
    except KeyboardInterrupt:
        raise RunInterrupted(
            "the study was stopped; its arms are saved", hint="The same command goes on."
        ) from None
    except BrokenProcessPool as error:
        raise RunError(
            "a training process was killed from outside (often: out of memory)",
            hint="Run the same command again to go on; --jobs 1 needs the least memory.",
        ) from error
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        _drain(events, on_progress)


def _drain(events: Any, on_progress: Callable[[ArmProgress], None]) -> None:
    while True:
        try:
            on_progress(events.get_nowait())
        except queue.Empty:
            return


_events: Any = None


def _start_worker(events: Any, stop: Any, threads: int) -> None:
    global _events
    _events = events
    torch.set_num_threads(threads)
    # Ctrl-C reaches every process of a terminal: a training saves and stops (`train.loop` listens
    # while it runs), the rest is ended by the study itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threading.Thread(target=_stop_with_study, args=(stop,), daemon=True).start()


def _end_with_parent() -> None:
    # A worker whose study was killed must not train on: the next study would find its folder taken.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _stop_with_study(stop: Any) -> None:
    # As if Ctrl-C came to this process alone: a training in progress saves and ends.
    stop.wait()
    os.kill(os.getpid(), signal.SIGINT)


@dataclass
class _Reporter:
    arm: Arm
    total: int = 0

    def record(self, values: dict[str, Any]) -> None:
        self.total = values.get("total", self.total)
        if values["kind"] in ("start", "train"):
            _events.put(
                ArmProgress(
                    self.arm.name,
                    self.arm.recipe.seed,
                    values["iteration"],
                    self.total,
                    values.get("error"),
                )
            )

    def close(self) -> None:
        """Nothing to close."""


def _train_arm(arm: Arm) -> None:
    data = data_of(arm.recipe)
    fresh = build_net(arm.recipe, data)
    seen = with_holdout(data, arm.recipe)
    start = _gradients(fresh, seen, arm.recipe)
    if RunFolder(arm.folder).exists():
        _check_recipe(arm)
        run = resume(arm.folder, data=data, observers=[_Reporter(arm)])
    else:
        run = fit(fresh, data, recipe=arm.recipe, out=arm.folder, observers=[_Reporter(arm)])
    loader = build_eval_loader(
        seen.train,
        preprocessing=preprocessing_of(seen, arm.recipe),
        batch_size=eval_batch_size(seen),
        workers=arm.recipe.workers,
    )
    train = evaluate_batches(run.model, loader)
    result = ArmResult(
        name=arm.name,
        model=arm.recipe.model,
        kind=arm.kind,
        depth=arm.depth,
        seed=arm.recipe.seed,
        parameters=count_parameters(run.model),
        final_train_error=train.top1_error,
        final_train_loss=train.loss,
        final_test_error=run.result.top1_error,
        curve=run.curve,
        gradients_start=start,
        gradients_end=_gradients(run.model, seen, arm.recipe),
        seconds=run.folder.about()["seconds"],
        folder=arm.folder.name,
    )
    files.write_json(_result_path(arm), to_json(result))


def _gradients(model: torch.nn.Module, data: Data, recipe: Recipe) -> tuple[LayerNorm, ...]:
    loader = build_eval_loader(
        data.train, preprocessing=preprocessing_of(data, recipe), batch_size=recipe.batch_size
    )
    batch = next(iter(loader))
    images = batch.views[0]
    assert isinstance(images, torch.Tensor), "studies train on pictures"
    return measure_gradient_norms(model, images, batch.targets)


def _check_recipe(arm: Arm) -> None:
    there = RunFolder(arm.folder).recipe()
    # The net fills its options in when it is built; what was asked for is the rest.
    filled = {k: v for k, v in there.model_options.items() if k not in arm.recipe.model_options}
    asked = arm.recipe.updated({"model_options": arm.recipe.model_options | filled})
    RunFolder(arm.folder).check_recipe(asked)


def _result_path(arm: Arm) -> Path:
    return arm.folder / "arm.json"


def _load_result(arm: Arm) -> ArmResult:
    _check_recipe(arm)
    return from_json(ArmResult, files.read_json(_result_path(arm)))
