"""`reslab models`."""

import dataclasses
import json

import click

from reslab.cli.console import show_table
from reslab.models.catalog import MODELS, create_model

__all__ = ["models"]


@click.command()
@click.argument("pattern", default="*")
@click.option("--json", "as_json", is_flag=True, help="One JSON list on standard output.")
def models(pattern: str, as_json: bool) -> None:
    """List nets whose name matches PATTERN, with the paper's figures beside ours.

    Depth counts weighted layers as the papers do. MACs are multiply-adds of one forward on one
    input. Other legal CIFAR depths can be asked for by name too (resnet26, plain38).

    \b
    Examples:
      reslab models
      reslab models 'plain*'
      reslab models resnet26
      reslab models --json | jq '.[].parameters'
    """
    names = MODELS.names(pattern)
    entries = [MODELS.get(name) for name in names] if names else [_measured(pattern)]
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
            f"{entry.macs / 1e9:.3f}G" if entry.macs >= 1e9 else f"{entry.macs / 1e6:.1f}M",
            entry.paper_macs,
            entry.paper_error,
            entry.source,
        )
        for entry in entries
    ]
    show_table(columns, rows)


def _measured(name: str):  # type: ignore[no-untyped-def]
    """An entry for a net that the catalogue does not hold, measured now."""
    from reslab.models.catalog import ModelEntry, resolve
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
