"""`reslab train`, `reslab resume` and `reslab recipes`."""

from pathlib import Path
from typing import Any

import click

from reslab.cli.console import progress, say, show_table
from reslab.cli.recipe_options import RecipeCommand, parse_options, recipe_changes, recipe_options

__all__ = ["recipes", "resume", "train"]


class _Progress:
    """An observer of a run that moves a progress bar."""

    def __init__(self) -> None:
        self._context: Any = None
        self._advance: Any = None
        self._at = 0
        self._test = ""

    def record(self, values: dict[str, Any]) -> None:
        """Move the bar; show loss, error, learning rate and speed."""
        if values["kind"] == "start":
            self._context = progress("training", values["total"], "iterations")
            self._advance = self._context.__enter__()
            self._at = 0
            self._move(values["iteration"], None)
        elif values["kind"] == "eval":
            self._test = f", test error {values['test_error']:.2f} %"
        else:
            note = (
                f"loss {values['loss']:.4f}, error {values['error']:.2f} %, lr {values['lr']:.4g}, "
                f"{values['samples_per_second']:.0f} samples/s{self._test}"
            )
            self._move(values["iteration"], note)

    def _move(self, iteration: int, note: str | None) -> None:
        if iteration > self._at:
            self._advance(iteration - self._at, note=note)
        self._at = iteration

    def close(self) -> None:
        """Take the bar away."""
        if self._context is not None:
            self._context.__exit__(None, None, None)


@click.command(cls=RecipeCommand)
@click.argument("model")
@click.option("--data", default=None, help="Data set by name, a folder of images, or text files.")
@click.option(
    "--recipe", help="Recipe by name or YAML file [default: quick for pictures, text for text]."
)
@click.option("--out", type=click.Path(path_type=Path), help="Run folder [default: under runs/].")
@click.option(
    "--model-option", "-m", multiple=True, metavar="KEY=VALUE", help="Option of the model."
)
@recipe_options
def train(
    model: str,
    data: str | None,
    recipe: str | None,
    out: Path | None,
    model_option: tuple[str, ...],
    **values: Any,
) -> None:
    """Train MODEL by a recipe; Ctrl-C saves, `reslab resume` goes on.

    Every value of the recipe can be overridden by its flag. The run folder holds the recipe, all
    metrics, TensorBoard events, checkpoints and the weights.

    \b
    Examples:
      reslab train resnet20                                      digits, seconds
      reslab train resnet56 --data cifar10 --recipe paper --out runs/r56
      reslab train plain20 --data cifar10 --recipe paper --iterations 8000 --seed 1
      reslab train resnet50 --data path/to/folder --recipe imagenet-2015 --weights r50.safetensors
      reslab train resnet20 -m shortcut=projection -m drop_path=0.1
      reslab train transformer-tiny --data reverse               text: exact match in minutes
    """
    from reslab.models.catalog import resolve
    from reslab.recipe import load_recipe
    from reslab.train.fit import build_net, data_of, default_folder, fit

    base = load_recipe(recipe or resolve(model)[0].recipe)
    options = base.model_options | parse_options(model_option)
    changes: dict[str, Any] = {"model": model, "model_options": options}
    changes |= {"data": data} if data else {}
    chosen = base.updated(changes | recipe_changes(values))
    loaded = data_of(chosen)
    net = build_net(chosen, loaded)
    folder = out if out is not None else default_folder(chosen, net)
    run = fit(net, loaded, recipe=chosen, out=folder, observers=[_Progress()])
    _report(run)


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
def resume(run: Path) -> None:
    """Go on with the run in folder RUN from its last whole checkpoint.

    On the CPU the final weights are bit-equal to those of a run that was never stopped.

    \b
    Examples:
      reslab resume runs/r56
    """
    from reslab.train.fit import resume as resume_run
    from reslab.train.run import RunFolder

    if RunFolder(run).is_finished():
        say(f"reslab: {run} is finished already")
    _report(resume_run(run, observers=[_Progress()]))


def _report(run: Any) -> None:
    result = run.result
    what = "test samples" if result.perplexity is None else "test tokens"
    click.echo(f"top-1 error {result.top1_error:.2f} % on {result.samples:,} {what}")
    if result.perplexity is not None:
        click.echo(f"perplexity  {result.perplexity:.3f}")
    if result.exact_match is not None:
        click.echo(f"exact match {result.exact_match:.2f} % of sequences, by greedy decoding")
    click.echo(f"run folder  {run.folder.path}")
    click.echo(f"weights     {run.folder.weights}")


@click.command()
@click.argument("name", required=False)
def recipes(name: str | None) -> None:
    """List the recipes, or print recipe NAME as YAML to start your own from.

    \b
    Examples:
      reslab recipes
      reslab recipes paper > mine.yaml
      reslab train resnet20 --recipe mine.yaml
    """
    import yaml

    from reslab.recipe import list_recipes, load_recipe

    if name is not None:
        click.echo(yaml.safe_dump(load_recipe(name).to_dict(), sort_keys=False), nl=False)
        return
    rows = []
    for each in list_recipes():
        recipe = load_recipe(each)
        length = recipe.iterations or f"{recipe.epochs} epochs"
        rows.append((each, recipe.data, length, recipe.batch_size, recipe.lr, recipe.schedule))
    show_table(("name", "data", "iterations", "batch", "lr", "schedule"), rows)
