"""`reslab models`."""

import dataclasses
import json

import click

from reslab.cli.console import show_table
from reslab.models.catalog import MODELS, ModelEntry, create_model, resolve

__all__ = ["models"]


@click.command()
@click.argument("pattern", default="*")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
@click.option(
    "--compare", "names", is_flag=True, help="PATTERN and what follows are nets to compare."
)
@click.argument("others", nargs=-1)
def models(pattern: str, others: tuple[str, ...], as_json: bool, names: bool) -> None:
    """List nets whose name matches PATTERN, with the paper's figures beside ours.

    Depth counts weighted layers as the papers do. MACs are multiply-adds of one forward on one
    input. Names that count layers can be asked for at any legal depth too (resnet26, plain38,
    preresnet29). With --compare, shows where the nets named differ, part by part.

    \b
    Examples:
      reslab models
      reslab models 'plain*'
      reslab models resnet26
      reslab models --compare resnet110 preresnet110 highway50
      reslab models --json | jq '.[].parameters'
    """
    if names:
        _compare((pattern, *others), as_json)
        return
    if others:
        raise click.UsageError(f"one PATTERN, and {len(others) + 1} were given; quote it: '*'")
    found = MODELS.names(pattern)
    entries = [MODELS.get(name) for name in found] if found else [_measured(pattern)]
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(entry) for entry in entries], indent=2))
        return
    columns = ("name", "depth", "parameters", "paper", "MACs", "paper", "paper's error %", "source")
    rows = [
        (
            entry.name,
            entry.depth,
            f"{entry.parameters:,}",
            entry.paper_parameters,
            _short(entry.macs),
            entry.paper_macs,
            entry.paper_error,
            entry.source,
        )
        for entry in entries
    ]
    show_table(columns, rows)


def _short(macs: int) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if macs >= size:
            return f"{macs / size:.{3 if unit == 'G' else 1}f}{unit}"
    return f"{macs:,}"


def _compare(names: tuple[str, ...], as_json: bool) -> None:
    from reslab.models.compare import PARTS, describe_parts

    if len(names) < 2 or "*" in names:
        raise click.UsageError("--compare needs two nets or more: --compare resnet110 plain110")
    parts = {name: describe_parts(name) for name in names}
    if as_json:
        click.echo(json.dumps(parts, indent=2))
        return
    rows, same = [], []
    for part in PARTS:
        values = [parts[name][part] for name in names]
        if len(set(values)) > 1:
            rows.append((part, *(value or "none" for value in values)))
        elif values[0]:
            same.append(f"{part} {values[0]}")
    show_table(("part", *names), rows)
    click.echo(f"\nthe same in all: {'; '.join(same)}" if same else "\nno part is the same in all")


def _measured(name: str) -> ModelEntry:
    """An entry for a net that the catalogue does not hold, measured now."""
    from reslab.models.cost import measure_cost

    family, options = resolve(name)
    net = create_model(name)
    cost = measure_cost(net, family.input_shape, kind=family.kind)
    return ModelEntry(
        name=name,
        family=family.name,
        options=options,
        depth=net.depth,
        parameters=cost.parameters,
        macs=cost.macs,
        input_shape=family.input_shape,
        source="measured now",
    )
