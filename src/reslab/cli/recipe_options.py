"""One flag for every value of a recipe, made from the recipe itself."""

import dataclasses
from collections.abc import Callable
from typing import Any

import click
import yaml

from reslab.errors import UsageError
from reslab.recipe import Recipe

__all__ = ["RecipeCommand", "parse_options", "recipe_changes", "recipe_options"]

_APART = ("name", "model", "model_options", "data")


def _flags() -> list[dataclasses.Field[Any]]:
    return [item for item in dataclasses.fields(Recipe) if item.name not in _APART]


def recipe_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --lr, --epochs, ... to a command; unset ones come as None."""
    for item in reversed(_flags()):
        choices = item.metadata["choices"]
        option = click.option(
            f"--{item.name.replace('_', '-')}",
            item.name,
            default=None,
            metavar="|".join(choices).upper() if choices else "VALUE",
            help=f"{item.metadata['help']} [recipe's own default: {item.default}]",
        )
        command = option(command)
    return command


def recipe_changes(values: dict[str, Any]) -> dict[str, Any]:
    """Those recipe values among a command's arguments that were given."""
    names = {item.name for item in _flags()}
    return {k: v for k, v in values.items() if k in names and v is not None}


def parse_options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Model options from KEY=VALUE arguments; values are read as YAML.

    >>> parse_options(("shortcut=projection", "drop_path=0.1"))
    {'shortcut': 'projection', 'drop_path': 0.1}
    """
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(
                "a model option is KEY=VALUE", got=pair, hint="Such as shortcut=projection."
            )
        try:
            options[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UsageError(f"the value of {key} cannot be read", got=value) from None
    return options


class RecipeCommand(click.Command):
    """A command whose help lists the recipe's values in a section of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Own options first, then the recipe's."""
        recipe_names = {item.name for item in _flags()}
        own: list[tuple[str, str]] = []
        recipe: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                (recipe if parameter.name in recipe_names else own).append(record)
        with formatter.section("Options"):
            formatter.write_dl(own)
        with formatter.section("Recipe values (each overrides the recipe)"):
            formatter.write_dl(recipe)
