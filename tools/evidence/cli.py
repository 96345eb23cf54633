"""The command line: `evidence COMMAND`.

Exit status: 0 nothing to mend; 1 a finding that fails, or a program that
failed; 2 the command itself could not be carried out.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evidence import __version__
from evidence.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Sequence

# In the order of an author's day; a command's module is imported when called,
# so that `check` and `list` start without the recorder.
COMMANDS = {
    "list": "List programs and the state of their evidence.",
    "build": "Compile every program for the configured architectures.",
    "record": "Compile and run programs on this machine's GPU, and store what happened.",
    "sign": "Sign bundles with an SSH key.",
    "accept": "Verify bundles recorded elsewhere and store their records.",
    "verify": "Record anew without storing, and say what is not as recorded.",
    "check": "Judge whether anything is stale or false; writes nothing.",
    "values": "List every address of a program's evidence with its value.",
    "diff": "Compare two records value by value.",
    "reviewed": "Say that sections of pages were read against what they stand on now.",
    "readme": "Write the READMEs of the programs' folders, and the pages that list programs.",
    "nav": "List the days that are there in the site's navigation.",
    "tidy": "Write notebooks as they are kept: without outputs.",
    "grade": "Judge your answer to a day's exercise.",
    "doctor": "Say what this machine can do, and what to install.",
    "prune": "Remove evidence of programs that are gone.",
}


class _Lazy(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"evidence.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        # The help of the group must not import every command.
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="evidence")
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder in the project (default: the current one).",
)
@click.pass_context
def group(ctx: click.Context, project: Path | None) -> None:
    """Record what programs do on a GPU, and keep pages true to it."""
    ctx.obj = project


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    # Thousands of records are read and kept; looking through them again and
    # again for cycles, of which they have none, is a fifth of `check`'s time.
    gc.set_threshold(200_000, 20, 50)
    try:
        status = group.main(
            args=None if arguments is None else list(arguments),
            prog_name="evidence",
            standalone_mode=False,
        )
    except EvidenceError as error:
        click.echo(f"evidence: {error}", err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except click.Abort:
        click.echo("evidence: stopped", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # The reader (`head`, a pager) has seen enough.
        sys.stderr.close()
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)
