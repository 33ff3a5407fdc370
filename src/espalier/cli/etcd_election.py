"""Flags of `etcd-agent run` and `copy` that make them parts of a migration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from espalier.api import yaml_trees
from espalier.api.etcd.timing import Timing, TimingError
from espalier.cli import flags
from espalier.cli.failures import Failure, Usage

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_MOST_EPOCHS = 2**53
_LARGEST_TIMING = 1 << 16


@dataclass(frozen=True, slots=True)
class ElectionFlags:
    """An epoch, and what belongs to it."""

    epoch: int
    cluster: str
    timing: Timing


def epoch(help: str) -> Callable[[Decorated], Decorated]:
    """`--epoch`, `--cluster` and `--timing`."""

    def decorated(command: Decorated) -> Decorated:
        for option in (
            click.option("--timing", type=flags.FILE, metavar="FILE", help="Times of the election (YAML or JSON)."),
            click.option(
                "--cluster", default="", metavar="ID", help="Whose etcd it is, in words no other cluster has."
            ),
            click.option("--epoch", type=flags.Number(1, _MOST_EPOCHS), metavar="N", help=help),
        ):
            command = option(command)
        return command

    return decorated


def membership(command: Decorated) -> Decorated:
    """etcd's own flags that say which member of which cluster it is."""
    for option in (
        click.option(
            "--initial-advertise-peer-urls", default="http://localhost:2380", metavar="URLS", show_default=True,
            help="As etcd's, with commas.",
        ),
        click.option(
            "--initial-cluster-token", default="etcd-cluster", metavar="TOKEN", show_default=True, help="As etcd's."
        ),
        click.option(
            "--initial-cluster", default="", metavar="NAME=URL",
            help="As etcd's, with commas. Default: this member alone.",
        ),
        click.option("--name", default="default", metavar="NAME", show_default=True, help="As etcd's --name."),
    ):  # fmt: skip
        command = option(command)
    return command


def election(epoch: int, cluster: str, timing: Path | None) -> ElectionFlags:
    """What these flags mean together. Raises `Usage`, and `Failure` for the file."""
    if not cluster:
        raise Usage("--cluster must be given with --epoch: the technical ID and UID of the shoot, say")
    return ElectionFlags(epoch, cluster, _timing(timing))


def needs_epoch(**given: object) -> None:
    """Raise `Usage` if one of these flags was given, which mean nothing without `--epoch`."""
    for name, value in given.items():
        if value:
            raise Usage(f"--{name.replace('_', '-')} needs --epoch")


def _timing(path: Path | None) -> Timing:
    if path is None:
        return Timing()
    try:
        return msgspec.convert(yaml_trees.document(path, _LARGEST_TIMING), Timing)
    except OSError as error:
        raise Failure(f"--timing: {path}: {error.strerror}") from None
    except TimingError as error:
        raise Failure(f"--timing: {path}:\n{error}") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise Failure(f"--timing: {path}: {error}") from None
