"""Flags of `etcd-agent run` and `copy` for migrations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from espalier.api.etcd.timing import Timing
from espalier.cli.backups.election_times import read_times
from espalier.cli.kit import flags
from espalier.cli.kit.failures import Usage
from espalier.etcd.endpoints import endpoint

if TYPE_CHECKING:
    from espalier.etcdbackup.restore.members import Membership

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_MOST_EPOCHS = 2**53
_MEMBERSHIP = ("name", "initial_cluster", "initial_cluster_token", "initial_advertise_peer_urls")


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
            click.option("--cluster", default="", metavar="ID", help="Unique ID of the cluster that etcd belongs to."),
            click.option("--epoch", type=flags.Number(1, _MOST_EPOCHS), metavar="N", help=help),
        ):
            command = option(command)
        return command

    return decorated


def membership(command: Decorated) -> Decorated:
    """etcd's own flags that identify a member and its cluster."""
    for option in (
        click.option(
            "--initial-advertise-peer-urls", default="http://localhost:2380", metavar="URLS", show_default=True,
            help="As for etcd; comma-separated.",
        ),
        click.option(
            "--initial-cluster-token", default="etcd-cluster", metavar="TOKEN", show_default=True, help="As for etcd."
        ),
        click.option(
            "--initial-cluster", default="", metavar="NAME=URL",
            help="As for etcd; comma-separated. Default: only this member.",
        ),
        click.option("--name", default="default", metavar="NAME", show_default=True, help="As for etcd."),
    ):  # fmt: skip
        command = option(command)
    return command


def peers(command: Decorated) -> Decorated:
    """Flags about the members of an etcd that has several."""
    for option in (
        click.option(
            "--member-config", type=flags.FILE, metavar="FILE",
            help="etcd's --config-file, which the agent writes if etcd has several members.",
        ),
        click.option(
            "--member-agents", default="", metavar="NAME=URL",
            help="URLs of the agents of all members of --initial-cluster; comma-separated.",
        ),
        click.option(
            "--member-clients", default="", metavar="NAME=URL",
            help="Client URLs of all members of --initial-cluster, which are those of their guards; comma-separated.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def urls_of_members(text: str, flag: str, members: Membership) -> dict[str, str]:
    """The URLs by the names of members. Raises `Usage` unless there is one for each member."""
    urls: dict[str, str] = {}
    for entry in text.split(","):
        name, equals, url = entry.strip().partition("=")
        if not (name and equals and url) or name in urls:
            raise Usage(f"{flag}: found {entry!r}, allowed is NAME=URL once for each member, separated by commas")
        try:
            endpoint(url, tls=False)
        except ValueError as error:
            raise Usage(f"{flag}: {error}") from None
        urls[name] = url
    names = {member.name for member in members.members}
    if urls.keys() != names:
        given = ", ".join(sorted(urls))
        raise Usage(f"{flag}: found {given}, allowed are the members of --initial-cluster: {', '.join(sorted(names))}")
    return urls


def election(epoch: int, cluster: str, timing: Path | None) -> ElectionFlags:
    """The configuration from all of these flags. Raises `Usage`, also for problems in the file."""
    if not cluster:
        raise Usage("--cluster must be given with --epoch, such as the technical ID and UID of the shoot")
    return ElectionFlags(epoch, cluster, read_times(timing))


def needs_epoch(**given: object) -> None:
    """Raise `Usage` if one of these flags is given without `--epoch`."""
    for name, value in given.items():
        if value:
            raise Usage(f"--{name.replace('_', '-')} needs --epoch")


def needs_data_directory(command: Decorated) -> Decorated:
    """Reject flags of `membership` that are given without `--data-dir`: they would have no effect."""

    @functools.wraps(command)
    def checked(**given: Any) -> Any:
        context = click.get_current_context()
        for name in _MEMBERSHIP:
            if given["data_dir"] is None and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise Usage(f"--{name.replace('_', '-')} needs --data-dir: it identifies the member to restore")
        return command(**given)

    return cast(Decorated, checked)
