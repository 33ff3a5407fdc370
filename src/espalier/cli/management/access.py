"""The connection to a management cluster that was created on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from espalier.api.resource import Key
from espalier.cli.clusters import lifecycle
from espalier.cli.kit import flags
from espalier.cli.kit.failures import Failure
from espalier.cli.management import self_managed
from espalier.cli.management.bootstraps import client_of
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig, kubeconfig_files
from espalier.kube.errors import KubeError
from espalier.management import record as records


async def connected(flag: flags.Connection) -> tuple[Client, Kubeconfig] | None:
    """A client of the API server that the flags or the environment select, and its kubeconfig, whose
    current context is the selected one; None without any.
    """
    if flag.kubeconfig is None and not os.environ.get("KUBECONFIG"):
        return None
    return _opened(kubeconfig_files(flag.kubeconfig, os.environ), flag.context)


async def of_management_cluster(key: Key, flag: flags.Connection) -> tuple[Client, Kubeconfig] | None:
    """The same for a management cluster: selected, or by the kubeconfig that its creation wrote in this folder. None if
    neither is its own.
    """
    for client, kubeconfig in await _given(key, flag):
        if await _record(client) == key:
            return client, kubeconfig
        await client.close()
    return None


async def reached(key: Key, flag: flags.Connection) -> Client:
    """A client of a management cluster, to be closed. Raises `Failure` without any."""
    given = await of_management_cluster(key, flag)
    if given is None:
        raise unreached(key)
    return given[0]


def unreached(key: Key) -> Failure:
    """The error for a management cluster that neither the kubeconfig in use nor the one in this folder reaches."""
    home = self_managed.environment_of(key.name)
    if home is not None and not home.is_running():
        resumption = self_managed.resumption(home)
        if home.components.exists():
            return Failure(
                f"cluster {key} does not answer, and the process that manages its nodes does not run; `{resumption}` "
                "starts it"
            )
        return Failure(f"cluster {key} does not answer: its simulated machines do not run; `{resumption}` starts them")
    return Failure(
        f"no kubeconfig of cluster {key} here: neither {lifecycle.kubeconfig_path(key)} nor the kubeconfig in use is "
        "its own; give it with --kubeconfig"
    )


async def managed(key: Key, flag: flags.Connection) -> Key | None:
    """The record of the management cluster that is selected, or else of the one whose kubeconfig its creation wrote in
    this folder; None if neither answers as a management cluster.
    """
    for client, _ in await _given(key, flag):
        try:
            if (record := await _record(client)) is not None:
                return record
        finally:
            await client.close()
    return None


async def _given(key: Key, flag: flags.Connection) -> list[tuple[Client, Kubeconfig]]:
    given = (await connected(flag), _opened([lifecycle.kubeconfig_path(key)], None))
    return [item for item in given if item is not None]


async def _record(client: Client) -> Key | None:
    try:
        managed = await records.managed(client)
    except KubeError:
        return None
    return managed[0] if managed is not None else None


def _opened(files: Sequence[Path], context: str | None) -> tuple[Client, Kubeconfig] | None:
    present = [file for file in files if file.exists()]
    if not present:
        return None
    loaded = Kubeconfig.load(present)
    loaded.current_context = context or loaded.current_context
    return client_of(loaded.context()), loaded
