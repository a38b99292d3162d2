"""What a person sees in a terminal: lines, tables, and progress with ETA.

Results go to standard output, everything else to standard error. Without a terminal, progress is a
plain line now and then.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

__all__ = ["progress", "say", "show_table", "start_logging"]

_LINE_EVERY_SECONDS = 5.0


def say(text: str) -> None:
    """One plain line on standard error."""
    click.echo(text, err=True)


def start_logging() -> None:
    """Library notices become lines on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("reslab: %(message)s"))
    logger = logging.getLogger("reslab")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str = "") -> None:
    """A table on standard output; columns of numbers to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        cells = [str(row[number]) for row in rows if str(row[number])]
        is_number = bool(cells) and all(cell[:1] in "0123456789.<>+-~" for cell in cells)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=number == 0)
    for row in rows:
        table.add_row(*map(str, row))
    width = None if sys.stdout.isatty() else 160
    Console(width=width, highlight=False).print(table)


@contextlib.contextmanager
def progress(description: str, total: int | None, unit: str = "") -> Iterator[Callable[..., None]]:
    """Progress of `total` units: call the result with how many are done now, and a short note.

    with progress("checking", 100, "pictures") as advance:
        advance(1, note="cat/1.jpg")
    """
    is_terminal = sys.stderr.isatty()
    shown = _bar(description, total) if is_terminal else _lines(description, total, unit)
    with shown as advance:
        yield advance


@contextlib.contextmanager
def _bar(description: str, total: int | None) -> Iterator[Callable[..., None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    def fixed(width: int) -> Column:
        return Column(no_wrap=True, min_width=width)

    columns = (
        TextColumn("{task.description}", table_column=fixed(len(description))),
        BarColumn(bar_width=12, table_column=fixed(12)),
        MofNCompleteColumn(table_column=fixed(2 * len(str(total or "")) + 1)),
        TimeRemainingColumn(elapsed_when_finished=True, table_column=fixed(8)),
        # What is left of the line; cut where the terminal ends.
        TextColumn("{task.fields[note]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, note="")

        def advance(done: int = 1, note: str | None = None) -> None:
            bar.update(task, advance=done)
            if note is not None:
                bar.update(task, note=note)

        yield advance


@contextlib.contextmanager
def _lines(description: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
    start = last = time.monotonic()
    done = 0

    def advance(more: int = 1, note: str | None = None) -> None:
        nonlocal done, last
        done += more
        now = time.monotonic()
        if now - last < _LINE_EVERY_SECONDS and done != total:
            return
        last = now
        left = (
            "" if not total or not done else f", {(now - start) / done * (total - done):.0f} s left"
        )
        of = f" of {total}" if total else ""
        say(f"{description}: {done}{of} {unit}{left}{f', {note}' if note else ''}")

    yield advance
