"""Flags that several commands share, named as kubectl names them."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from espalier.api.text import durations
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.printing import formats

Result = TypeVar("Result")
Value = TypeVar("Value")
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

FILE = click.Path(path_type=Path, readable=False)
"""A file or folder. The code that opens it reports problems."""


class OneOf(click.Choice[Value]):
    """One of these words, or of the values of an enumeration, in any case."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        """The word for a choice."""
        return str(choice).casefold()

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """The message for any other word."""
        allowed = [str(choice) for choice in self.choices]
        return f"found {str(value)!r}, allowed {'are' if len(allowed) > 1 else 'is'} {', '.join(allowed)}"


class Number(click.ParamType[float]):
    """A number within limits; an integer if the limits are."""

    name = "number"

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number in a text."""
        try:
            number = type(self.least)(value)
        except ValueError:
            number = math.nan
        if self.least <= number <= self.most:
            return number
        noun = "a whole number" if isinstance(self.least, int) else "a number"
        least, most = (str(limit) if isinstance(limit, int) else f"{limit:g}" for limit in (self.least, self.most))
        allowed = f"{noun} from {least} to {most}"
        raise click.BadParameter(f"found {value!r}, allowed is {allowed}", ctx, param)


class NumberOrAll(click.ParamType[int | None]):
    """An integer of at least 1; or None, written as -1, for no limit."""

    name = "number"

    def __init__(self, most: int) -> None:
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """The number in a text."""
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number == -1:
            return None
        if 1 <= number <= self.most:
            return number
        raise click.BadParameter(
            f"found {value!r}, allowed is a whole number from 1 to {self.most}, or -1: all", ctx, param
        )


class Namespace(click.ParamType[str]):
    """The name of a namespace; empty for none."""

    name = "namespace"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name. Raises `Usage` if there can be no namespace of it."""
        if value and not re.fullmatch(LABEL, value):
            allowed = "the name of a namespace (lower case, digits and dashes)"
            raise Usage(f"--namespace: found {value!r}, allowed is {allowed}")
        return str(value)


class Connection(msgspec.Struct, frozen=True):
    """API server to talk to."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None


def connection(command: Callable[..., Result]) -> Callable[..., Result]:
    """`--kubeconfig`, `--context` and `--namespace`, given to the command as `connect`, a `Connection`."""

    @click.option(
        "--kubeconfig",
        type=FILE,
        metavar="FILE",
        help="Kubeconfig file. Default: $KUBECONFIG, the local environment's, ~/.kube/config.",
    )
    @click.option("--context", metavar="NAME", help="Context within the kubeconfig.")
    @click.option(
        "--namespace", "-n", type=Namespace(), metavar="NAME", help="Namespace. Default: that of the context."
    )
    @functools.wraps(command)
    def connected(*, kubeconfig: Path | None, context: str | None, namespace: str | None, **others: Any) -> Result:
        return command(connect=Connection(kubeconfig, context, namespace), **others)

    return connected


def filename(*, help: str, required: bool = False) -> Callable[[Decorated], Decorated]:
    """`--filename`, given to the command as a tuple of names."""
    path = click.Path(allow_dash=True, readable=False)
    return click.option("--filename", "-f", multiple=True, required=required, type=path, metavar="FILE", help=help)


def choice(name: str, default: StrEnum, *, help: str) -> Callable[[Decorated], Decorated]:
    """A flag that takes one of the values of an enumeration."""
    return click.option(name, type=OneOf(type(default)), default=str(default), show_default=True, help=help)


def dry_run(*, help: str) -> Callable[[Decorated], Decorated]:
    """`--dry-run`, which without a value means `server`."""
    return click.option(
        "--dry-run",
        type=OneOf(("none", "server")),
        default="none",
        show_default=True,
        is_flag=False,
        flag_value="server",
        help=help,
    )


def boot_seconds(default: float) -> Callable[[Decorated], Decorated]:
    """`--boot-seconds`."""
    return click.option(
        "--boot-seconds",
        type=Number(0.0, 86400.0),
        default=default,
        metavar="SECONDS",
        show_default=True,
        help="Boot time of simulated machines.",
    )


def log_level(*, default: str) -> Callable[[Decorated], Decorated]:
    """`--log-level`."""
    return click.option(
        "--log-level", default=default, metavar="LEVEL", show_default=True, help="debug, info, warning or error."
    )


class OutputFormat(click.ParamType[str]):
    """A format of `-o`; empty for the output for people. Without `wide` columns, that is what `wide` stands for."""

    name = "format"

    def __init__(self, refused: Mapping[str, str], *, wide: bool) -> None:
        self.refused, self.wide = refused, wide

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The format in a text. Raises `Usage` for an unknown one."""
        if not value or (ctx is not None and ctx.resilient_parsing):
            return str(value)
        text = formats.checked(value, self.refused)
        return "" if text == formats.TABLE or (text == formats.WIDE and not self.wide) else text


def output(
    *, wide: bool = False, names: bool = False, refused: Mapping[str, str] | None = None, default: str = ""
) -> Callable[[Decorated], Decorated]:
    """`--output`, passed to the command as `output_format`; empty for output for people.

    `wide`: the command has more columns. `names`: what it prints has names. `refused`: what else it can't print, and
    why.
    """
    refusals = {**(refused or {}), **({} if names else {formats.NAME: formats.NO_NAMES})}
    allowed = formats.listed([format_ for format_ in formats.ALL if format_ not in refusals])
    return click.option(
        "--output",
        "-o",
        "output_format",
        type=OutputFormat(refusals, wide=wide),
        default=default,
        show_default=bool(default),
        metavar="FORMAT",
        help=f"{allowed}.",
    )


releases = click.option(
    "--releases",
    type=FILE,
    metavar="FOLDER",
    help="Folder with releases.yaml and the files it names, instead of the releases of this build.",
)

default_namespace = click.option(
    "--namespace",
    "-n",
    default="default",
    metavar="NAME",
    show_default=True,
    type=Namespace(),
    help="Namespace of objects without one.",
)

all_namespaces = click.option("--all-namespaces", "-A", is_flag=True, help="The clusters of all namespaces.")

watched_namespaces = click.option(
    "--namespace",
    "-n",
    multiple=True,
    metavar="NAMES",
    help="Only Clusters in these namespaces; comma-separated, or repeat the flag. Default: all.",
)

SECRET_OF_WEBHOOKS = "a Secret in eksa-system, such as webhook-certificate"  # noqa: S105  words
webhook_secret = click.option(
    "--webhook-secret",
    default="",
    metavar="NAME",
    help="Secret in eksa-system with the webhooks' certificate (tls.crt, tls.key, ca.crt), which somebody else issues "
    "and renews, such as cert-manager. Default: the manager issues its own.",
)

OBJECT_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""The pattern of most objects' names, which have at most 253 characters."""
LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""The pattern of names that stand in DNS names or labels: of namespaces and clusters."""


def check_name(flag: str, name: str, example: str) -> None:
    """Raises `Usage` for what can't be the name of an object, of which there is an example."""
    if len(name) > 253 or not re.fullmatch(OBJECT_NAME, name):
        raise Usage(f"{flag}: found {name!r}, allowed is the name of {example}")


def namespaces(given: Iterable[str], flag: str = "--namespace") -> tuple[str, ...]:
    """The distinct namespaces in a flag. Raises `Usage` for an invalid name."""
    names = dict.fromkeys(name for text in given for name in text.split(","))
    for name in names:
        if not re.fullmatch(LABEL, name):
            allowed = "comma-separated names of namespaces (lower case, digits and dashes)"
            otherwise = "; omit the flag to watch all" if flag == "--namespace" else ""
            raise Usage(f"{flag}: found {name!r}, allowed are {allowed}{otherwise}")
    return tuple(names)


def seconds(text: str, flag: str = "--timeout") -> float:
    """A duration as kubectl writes it (`90s`, `5m`, `1h30m`), in seconds. Raises `Usage` for anything else."""
    try:
        return float(durations.exact_seconds(f"{text}s" if text.isascii() and text.isdigit() else text))
    except (ValueError, OverflowError):
        raise Usage(f"{flag}: found {text!r}, allowed is a duration such as 90s, 5m or 1h30m") from None


def address(text: str, flag: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; without a host, this machine only. Raises `Usage`."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise Usage(f"{flag}: found {text!r}, allowed is HOST:PORT such as 127.0.0.1:8080")
    return host.strip("[]") or "127.0.0.1", int(port)
