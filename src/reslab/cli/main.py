"""`reslab`: commands, help and exit codes (0 done, 1 the job failed, 2 wrong usage)."""

import importlib
import os
import sys

import click

from reslab import __version__
from reslab.cli.console import say, start_logging
from reslab.errors import ReslabError

__all__ = ["cli", "main"]

_COMMANDS = {
    "study": ("reslab.cli.study:study", "Run an experiment of a paper and see what it shows."),
    "train": ("reslab.cli.train:train", "Train a net by a recipe into a run folder."),
    "resume": ("reslab.cli.train:resume", "Go on with a stopped run, in mid-epoch if need be."),
    "eval": ("reslab.cli.evaluate:evaluate", "Score a run or weights on a test set."),
    "predict": ("reslab.cli.evaluate:predict", "Name the classes of pictures."),
    "models": (
        "reslab.cli.models:models",
        "List nets: depth, parameters, MACs, the paper's figures.",
    ),
    "recipes": ("reslab.cli.train:recipes", "List recipes, or print one to start your own from."),
    "data": ("reslab.cli.data:data", "Get data sets and check folders of images."),
}


class _LazyGroup(click.Group):
    """Loads a command's module when the command is asked for, so that help stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="reslab")
def cli() -> None:
    """Build, train, examine, shrink and ship nets that go deep.

    \b
    Examples:
      reslab study degradation                         about a minute, ends with a page
      reslab models 'resnet*'
      reslab train resnet20 --data digits --recipe quick --out runs/first
      reslab eval runs/first
      reslab COMMAND --help                            every command has examples

    \b
    Shell completion (bash; zsh and fish likewise):
      eval "$(_RESLAB_COMPLETE=bash_source reslab)"
    """
    start_logging()


def main() -> None:
    """Run the command line; one sentence and an exit code for every foreseen error."""
    sys.exit(_run())


def _run() -> int:
    try:
        code = cli(standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except ReslabError as error:
        say(f"reslab: {error}")
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("reslab: stopped")
        return 1
    except BrokenPipeError:
        # The reader (head, less) has seen enough; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        say(f"reslab: {error.filename or 'the system'}: {error.strerror or error}")
        return 1
