"""`reslab eval` and `reslab predict`."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from reslab.cli.console import progress, say, show_table
from reslab.cli.recipe_options import parse_options

__all__ = ["evaluate", "predict"]

_VIEWS = ("single", "flip", "ten-crop", "multi-scale")


def _numbers(context: click.Context, parameter: click.Parameter, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not numbers with commas between") from None


_source = (
    click.argument("source", type=click.Path(path_type=Path)),
    click.option("--model", help="Which net the weights are of, when the file does not say."),
    click.option("--model-option", "-m", multiple=True, metavar="KEY=VALUE"),
    click.option("--mean", callback=_numbers, help="Input means of x/255, such as 0.5,0.5,0.5."),
    click.option("--std", callback=_numbers, help="Input standard deviations of x/255."),
    click.option(
        "--size",
        type=click.IntRange(min=1),
        default=224,
        show_default=True,
        help="Side of the net's input for pictures, when the weights do not say.",
    ),
    click.option(
        "--trust-pickle",
        is_flag=True,
        help="Let the file run code while it is read (torch pickle).",
    ),
)


def _with_source(command: Any) -> Any:
    for decorate in reversed(_source):
        command = decorate(command)
    return command


@click.command("eval")
@_with_source
@click.option("--data", help="Data set by name or a folder of images [default: the run's own].")
@click.option("--view", "--views", type=click.Choice(_VIEWS), default="single", show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="All scores as JSON on standard output.")
def evaluate(
    source: Path, data: str | None, view: str, device: str, as_json: bool, **how: Any
) -> None:
    """Score a run folder or a weights file: top-1, top-5, per class, confusion.

    Weights of others are recognised by their names (torchvision, pytorch_resnet_cifar10) and get
    the input statistics they were published with; --mean and --std override.

    \b
    Examples:
      reslab eval runs/r56
      reslab eval runs/r56 --view ten-crop --json
      reslab eval resnet20.th --model resnet20 --data cifar10 --json
    """
    from reslab.errors import UsageError
    from reslab.train.trained import evaluate as score

    trained = _load(source, how)
    name = data or trained.recipe.get("data", "")
    if not name or name == "custom":
        raise UsageError("which data? the weights do not say", hint="Give --data NAME or a folder.")
    chosen = _with_statistics(trained, how)
    result = score(chosen, name, view=view, image_size=how["size"], device=device)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(result), indent=2))
        return
    rows = [
        ("top-1 accuracy %", f"{result.top1_accuracy:.2f}"),
        ("top-1 error %", f"{result.top1_error:.2f}"),
    ]
    for label, value in (
        ("top-5 accuracy %", result.top5_accuracy),
        ("perplexity", result.perplexity),
        ("exact match %", result.exact_match),
    ):
        if value is not None:
            rows.append((label, f"{value:.2f}"))
    rows += [
        ("loss", f"{result.loss:.4f}"),
        ("samples", f"{result.samples}"),
        ("seconds", f"{result.seconds:.1f}"),
    ]
    show_table((f"{source}", f"{name}, {view}"), rows)
    _show_classes(result)


def _show_classes(result: Any) -> None:
    if not result.classes or not result.confusion or len(result.classes) > 100:
        return
    rows = []
    for number, name in enumerate(result.classes):
        accuracy, row = result.per_class_accuracy[number], result.confusion[number]
        wrong = {result.classes[j]: n for j, n in enumerate(row) if j != number and n}
        worst = ", ".join(f"{k} {v}" for k, v in sorted(wrong.items(), key=lambda e: -e[1])[:3])
        rows.append((name, "" if accuracy is None else f"{accuracy:.2f}", sum(row), worst))
    click.echo()
    show_table(("class", "accuracy %", "samples", "most often called"), rows)


def _load(source: Path, how: dict[str, Any]) -> Any:
    from reslab.train.trained import load_trained

    trained = load_trained(
        source,
        model=how["model"],
        model_options=parse_options(how["model_option"]),
        trust_pickle=how["trust_pickle"],
    )
    if trained.report is not None:
        say(f"reslab: {source}: {trained.report}")
    return trained


def _with_statistics(trained: Any, how: dict[str, Any]) -> Any:
    from reslab.errors import UsageError

    mean, std = how["mean"], how["std"]
    if (mean is None) != (std is None):
        raise UsageError("--mean and --std go together", hint="Give both or neither.")
    if mean is None:
        return trained
    return dataclasses.replace(trained, mean_std=(mean, std), preprocessing=None)


@click.command()
@_with_source
@click.argument("pictures", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="How many classes to show.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def predict(source: Path, pictures: tuple[Path, ...], top: int, as_json: bool, **how: Any) -> None:
    """Name the classes of PICTURES (files or folders) with the net in SOURCE.

    Preprocessing travels with the weights, so predicting a validation folder equals `reslab eval`.

    \b
    Examples:
      reslab predict runs/pets cat.jpg dog.jpg
      reslab predict runs/pets path/to/pictures --json
    """
    from reslab.deploy.predict import predict as predictions

    trained = _with_statistics(_load(source, how), how)
    if trained.mean_std is not None:
        trained = _with_size(trained, how["size"])
    paths = [path for given in pictures for path in _files(given)]
    with progress("predicting", len(paths), "pictures") as advance:
        for found in predictions(trained, paths, top=top):
            advance()
            if as_json:
                click.echo(json.dumps(dataclasses.asdict(found), ensure_ascii=False))
            else:
                names = ", ".join(f"{name} {100 * value:.1f} %" for name, value in found.top)
                click.echo(f"{found.path}: {names}")


def _with_size(trained: Any, size: int) -> Any:
    from reslab.data.preprocess import imagenet_preprocessing

    mean, std = trained.mean_std
    preprocessing = dataclasses.replace(
        imagenet_preprocessing(size), channels=len(std), mean=mean, std=std
    )
    return dataclasses.replace(trained, preprocessing=preprocessing)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
