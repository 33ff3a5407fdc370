"""`espalier completion SHELL`: a script that completes commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from espalier.cli.kit.commands import COMPLETING, Command
from espalier.cli.kit.flags import OneOf
from espalier.cli.kit.printing import output


@click.command(cls=Command)
@click.argument("shell", type=OneOf(("bash", "zsh", "fish")), metavar="SHELL", help="Shell: bash, zsh or fish.")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script.

    \b
    Example:
      source <(espalier completion bash)
    """
    made = get_completion_class(shell)
    if made is not None:
        output.write_data(made(context.find_root().command, {}, "espalier", COMPLETING).source())
