"""`espalier`: parses the command line, runs one command, ends with its exit code."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click
import uvloop

from espalier.cli.kit import distribution, interrupts
from espalier.cli.kit.command_index import COMMANDS
from espalier.cli.kit.commands import COMPLETING, EXIT_CODES, Group, sentence
from espalier.cli.kit.failures import Exit, explain, printing
from espalier.cli.kit.printing import output

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Program(Group):
    """All commands, each imported on demand: importing all of them takes longer than most commands run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Their names, and their short help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, listed.sentence) for name, listed in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The same for shell completion, and the flags."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only for shells

        items = [
            CompletionItem(name, help=listed.sentence)
            for name, listed in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; None if there is none."""
        listed = COMMANDS.get(cmd_name)
        if listed is None:
            return None
        module, name = import_module(f"espalier.cli.{listed.module}"), cmd_name.replace("-", "_")
        command: click.Command = getattr(module, name, None) or getattr(module, f"{name}_")  # `import` is a keyword
        return command


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"""{EXIT_CODES}
The local environment keeps its state in $ESPALIER_HOME (default: espalier in the XDG data folder);
$ESPALIER_HOME/kubeconfig is for kubectl.
""",
)
@click.version_option(package_name=distribution.NAME, message="%(version)s")
def program() -> None:
    """Creates, scales, upgrades and deletes Kubernetes clusters from declarative objects."""


_BY_MANAGER = "operations that were started continue in the background"
_BY_AGAIN = "keeps what is there: give the same command again, and it goes on"
_AFTER_INTERRUPT: Mapping[tuple[str, ...], str] = {
    ("create", "cluster"): _BY_MANAGER,
    ("upgrade", "cluster"): _BY_MANAGER,
    ("delete", "cluster"): _BY_MANAGER,
    ("renew", "certificates"): _BY_MANAGER,
    ("rollout", "restart"): _BY_MANAGER,
    ("shoots", "migrate"): _BY_MANAGER,
    ("seeds", "evacuate"): _BY_MANAGER,
    ("download", "images"): f"the folder {_BY_AGAIN}",
    ("import", "images"): f"the registry {_BY_AGAIN}",
    ("image", "push"): f"the registry {_BY_AGAIN}",
    ("move",): "give the same command again, and it goes on; `espalier move --help` says what else can be done",
    ("upgrade", "management-components"): "give the same command again, and it goes on",
}
"""The operations that continue after an interrupt, or the way to go on. All other commands end with what they do."""


async def _finish(awaitable: Awaitable[Any]) -> Any:
    interrupts.cancel_current_task()
    return await awaitable


def run(tokens: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    if COMPLETING in os.environ:
        from click.shell_completion import shell_complete  # noqa: PLC0415  only for shells

        return shell_complete(program, {}, "espalier", COMPLETING, os.environ[COMPLETING])
    result: object = None
    try:
        with printing(), interrupts.raised():
            with program.make_context("espalier", list(tokens)) as context:
                result = program.invoke(context)
            if inspect.isawaitable(result):
                result = uvloop.run(_finish(result))
    except click.exceptions.NoArgsIsHelpError as asked:
        output.say(asked.message)
        return Exit.OK
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as wrong:
        output.error(sentence(wrong))
        return Exit.USAGE
    except (Exception, KeyboardInterrupt, asyncio.CancelledError) as error:
        explained = explain(error)
        if explained is None:
            raise
        code, text = explained
        then = "" if code is not Exit.INTERRUPTED else _after_interrupt(tokens)
        output.error(f"{text}; {then}" if then else text)
        return code
    return result if isinstance(result, int) else Exit.OK


def _after_interrupt(tokens: Sequence[str]) -> str:
    return _AFTER_INTERRUPT.get(tuple(tokens[:2])) or _AFTER_INTERRUPT.get(tuple(tokens[:1]), "")


def open_standard_streams() -> None:
    """Open empty standard streams for a process that was started without them (`>&-`): otherwise the next opened file
    would become one of them, and libuv aborts the process then."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def main() -> NoReturn:
    """The console script."""
    open_standard_streams()
    code = run(sys.argv[1:])
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the reader has exited
            stream.flush()
    os._exit(code)  # everything open is closed: shutting the interpreter down takes a tenth of a short command's time
