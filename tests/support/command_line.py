"""The parsed command line, without running it; and all commands of the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from espalier.cli.main import program


def understood(tokens: Sequence[str]) -> dict[str, Any]:
    """The values of a command's parameters. Raises `click.UsageError`."""
    context = click.Context(program, info_name="espalier", **program.context_settings)
    rest = list(tokens)
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        is_group = isinstance(command, click.Group)
        parent = context
        context = click.Context(command, parent, name) if is_group else command.make_context(name, rest, parent)
    return context.params


def shown(context: click.Context | None = None) -> Iterator[click.Context]:
    """How each group and command is called that help shows, beginning with the program."""
    context = context or click.Context(program, info_name="espalier", **program.context_settings)
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            if not command.hidden:
                yield from shown(click.Context(command, context, name))
