"""Taking turns: contenders run A B A B ..., so that a drifting machine drifts for both."""

import multiprocessing
import platform
import statistics
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

_here: dict[str, Callable[[], float]] = {}


def in_process(factory: Callable[..., Callable[[], float]], *arguments: Any) -> Callable[[], float]:
    """The contender that `factory` builds, in a process of its own that waits between turns.

    What one contender sets in its process (memory, threads, compilation) does not help another.
    """
    pool = ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), _build, (factory, arguments)
    )
    pool.submit(_ready).result()
    return lambda: pool.submit(_run).result()


def _build(factory: Callable[..., Callable[[], float]], arguments: tuple[Any, ...]) -> None:
    _here["run"] = factory(*arguments)


def _ready() -> None:
    """Returns once the contender is built."""


def _run() -> float:
    return _here["run"]()


def take_turns(
    contenders: Mapping[str, Callable[[], float]], *, repeats: int
) -> dict[str, list[float]]:
    """Call every contender once a round; each returns its own figure."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            figures[name].append(run())
    return figures


def show(figures: Mapping[str, list[float]], *, unit: str, against: str) -> None:
    """A line each: median, spread, and the median of the ratios taken round by round."""
    for name, values in figures.items():
        ratios = [a / b for a, b in zip(values, figures[against], strict=True)]
        print(
            f"{name:40s} {statistics.median(values):10.2f} {unit}  "
            f"({min(values):.2f} to {max(values):.2f})  "
            f"{statistics.median(ratios):6.3f} x {against}"
        )


def describe_machine() -> str:
    """Processor, cores and torch, for the record."""
    import torch

    model = platform.processor()
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        lines = [x for x in listing.read_text().splitlines() if x.startswith("model name")]
        model = lines[0].partition(":")[2].strip() if lines else model
    amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()
    return (
        f"{model}, {torch.get_num_threads()} threads, "
        f"{torch.backends.cpu.get_cpu_capability()}, matrix units (AMX): {bool(amx)}, "
        f"torch {torch.__version__}"
    )
