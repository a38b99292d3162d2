"""`reslab study`."""

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from reslab.cli.console import progress, say, show_table
from reslab.cli.recipe_options import RecipeCommand, recipe_changes, recipe_options

__all__ = ["study"]

_DEFAULT_RECIPES = {"digits": "quick"}


@click.group()
def study() -> None:
    """Run an experiment of a paper: hypothesis, arms, measures, verdict, one page.

    \b
    Examples:
      reslab study degradation
      reslab study degradation --data cifar10
    """


def _list(kind: type) -> Any:
    def parse(context: click.Context, parameter: click.Parameter, text: str) -> tuple[Any, ...]:
        try:
            return tuple(kind(part.strip()) for part in text.split(",") if part.strip())
        except ValueError:
            raise click.BadParameter(f"{text!r} is no list such as {parameter.default}") from None

    return parse


@study.command(cls=RecipeCommand)
@click.option("--data", default="digits", show_default=True, help="Data set by name or a folder.")
@click.option("--recipe", help="Recipe [default: quick for digits, else paper-short].")
@click.option(
    "--arms", default="plain,resnet", show_default=True, callback=_list(str), help="Kinds of nets."
)
@click.option(
    "--depths", default="20,56", show_default=True, callback=_list(int), help="Depths, 6n + 2."
)
@click.option("--seeds", type=int, help="Seeds an arm [default: 3 for digits, else 1].")
@click.option("--jobs", type=int, help="Arms trained at a time [default: one a core].")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder [default: studies/degradation-DATA]."
)
@recipe_options
def degradation(
    data: str,
    recipe: str | None,
    arms: tuple[str, ...],
    depths: tuple[int, ...],
    seeds: int | None,
    jobs: int | None,
    out: Path | None,
    **values: Any,
) -> None:
    """Do deeper nets train worse, and do shortcuts cure it? (He 2015, section 4)

    Trains plain and residual nets of two depths with equal parameters, order of samples and
    budget, and judges five claims from the measured figures. Run the same command again to go on
    with a study that was stopped; finished arms are kept.

    \b
    Examples:
      reslab study degradation
      reslab study degradation --data cifar10 --iterations 2000 --seeds 1
      reslab study degradation --data cifar10 --recipe paper --depths 20,56,110
      reslab study degradation --arms plain --depths 20,32,44,56
    """
    from reslab.recipe import load_recipe
    from reslab.report.page import write_report
    from reslab.studies.degradation import DegradationStudy, run_degradation

    chosen = load_recipe(recipe or _DEFAULT_RECIPES.get(data, "paper-short"))
    chosen = chosen.updated({"data": data} | recipe_changes(values))
    folder = out if out is not None else Path("studies") / f"degradation-{Path(data).name}"
    asked = DegradationStudy(
        recipe=chosen,
        out=folder,
        kinds=arms,
        depths=depths,
        seeds=seeds if seeds is not None else _default_seeds(data),
        jobs=_default_jobs() if jobs is None else jobs,
        command=shlex.join(["reslab", *sys.argv[1:]]),
    )
    trainings = asked.arms()
    say(f"reslab: {len(trainings)} trainings, {asked.jobs} at a time, into {folder}")
    # A length in epochs has no known number of steps before the data is read: no ETA then.
    steps = sum(_cost(arm, chosen) for arm in trainings) or None
    with progress("training", steps, "layer-steps") as advance:
        result = run_degradation(asked, on_progress=_Mover(advance))
    _show(result, write_report(result, folder))


def _default_seeds(data: str) -> int:
    # Three seeds of digits take a minute; of anything larger, a person should ask for them.
    return 3 if data == "digits" else 1


def _default_jobs() -> int:
    return os.cpu_count() or 1


def _cost(arm: Any, recipe: Any) -> int:
    return arm.depth * (recipe.iterations or 0)


class _Mover:
    """Moves one bar by what all arms did, weighted by their depth."""

    def __init__(self, advance: Any) -> None:
        self._advance = advance
        self._at: dict[tuple[str, int], int] = {}

    def __call__(self, event: Any) -> None:
        before = self._at.get((event.arm, event.seed), 0)
        self._at[event.arm, event.seed] = event.iteration
        depth = int(event.arm.rpartition("-")[2])
        note = f"{event.arm} seed {event.seed}"
        if event.error is not None:
            note += f": training error {event.error:.1f} %"
        if event.iteration > before:
            self._advance((event.iteration - before) * depth, note=note)


def _show(result: Any, paths: Any) -> None:
    import statistics

    names = list(dict.fromkeys(arm.name for arm in result.arms))
    rows = []
    for name in names:
        arms = [arm for arm in result.arms if arm.name == name]
        train = [arm.final_train_error for arm in arms]
        spread = f"{statistics.stdev(train):.2f}" if len(train) > 1 else "-"
        test = statistics.fmean(arm.final_test_error for arm in arms)
        rows.append(
            (
                name,
                f"{arms[0].parameters:,}",
                len(arms),
                f"{statistics.fmean(train):.2f}",
                spread,
                f"{test:.2f}",
            )
        )
    columns = ("net", "parameters", "seeds", "training error %", "sd", "test error %")
    show_table(columns, rows)
    click.echo()
    for claim in result.claims:
        click.echo(f"({claim.key}) {claim.title}: {claim.verdict}")
    click.echo(f"\n{result.verdict}\n")
    click.echo(f"page    {paths.page}")
    click.echo(f"figure  {paths.png}, {paths.svg}")
    click.echo(f"table   {paths.csv}")
