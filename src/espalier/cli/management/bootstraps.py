"""Bootstraps: an API server with a manager, Cluster API and machines, from which a management cluster is created."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from espalier.api.resource import Key
from espalier.cli.clusters import lifecycle
from espalier.cli.kit import connection, shown_commands
from espalier.cli.kit.failures import Exit, Failure, Overdue
from espalier.cli.kit.home import Home
from espalier.cli.management.components import Components
from espalier.clusters.observe.rules import messages
from espalier.kube.access import Access
from espalier.kube.client import Client
from espalier.kube.kubeconfig import Kubeconfig
from espalier.kube.threaded import ThreadedTransport
from espalier.management import handed_over
from espalier.management import record as records

_PAUSE = 0.1
_PATIENCE = 90.0


class Bootstrap(Protocol):
    """A bootstrap, which may not run yet."""

    @property
    def title(self) -> str:
        """Where it is, for messages."""

    @property
    def stopped(self) -> str:
        """The command that starts its machines, which a dry run does not give; empty if they run."""

    @property
    def flag(self) -> str:
        """The flag that names it in a command, after a space; empty if the name of the cluster does."""

    async def is_in_use(self, key: Key) -> bool:
        """True if an operation on a cluster did not end yet. The machines run afterwards."""

    async def has_begun(self, key: Key) -> bool:
        """The same, as far as can be known without starting anything."""

    async def start(self) -> None:
        """Have it run; idempotent."""

    async def connect(self) -> Client:
        """A client of its API server. Raises `Failure` if it does not answer."""

    @property
    def components(self) -> Components | None:
        """The programs of a management cluster on its machines; None if they are simulated. Raises `Failure`."""

    async def reach_machines(self, key: Key, kubeconfig: bytes) -> None:
        """Have a management cluster that it created act on its machines, too; idempotent."""

    async def remove(self) -> None:
        """Remove it, but not the machines; idempotent."""

    async def delete(self, key: Key) -> None:
        """Remove it with everything that belongs to a cluster, once that is gone; idempotent."""

    def left(self) -> list[str]:
        """The folders and processes that stay on this machine after `remove`."""


class LocalBootstrap:
    """A background process of this machine, with simulated machines. These stay with it when the bootstrap goes."""

    def __init__(self, home: Home, boot_seconds: float) -> None:
        self.home = home
        self.flag = ""
        self._boot_seconds = boot_seconds

    @property
    def title(self) -> str:
        """Where it is."""
        return str(self.home.root)

    @property
    def stopped(self) -> str:
        """`espalier up` in its folder."""
        return "" if self.home.is_running() else f"ESPALIER_HOME={self.home.root} espalier up --detach"

    async def is_in_use(self, key: Key) -> bool:
        """True if the bootstrap is wanted."""
        await self.resume()
        return self.home.has_bootstrap()

    async def has_begun(self, key: Key) -> bool:
        """True if the bootstrap is wanted."""
        return self.home.has_bootstrap()

    async def start(self) -> None:
        """Have the process run, and the bootstrap in it."""
        with self.home.explained():
            self.home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.home.want_bootstrap(wanted=True)
        await self.resume()

    async def resume(self) -> None:
        """Have the process run, with or without a bootstrap as it was."""
        if not self.home.is_running():
            await self._espalier("up", "--detach", "--boot-seconds", str(self._boot_seconds))

    async def connect(self) -> Client:
        """A client, once its API server answers. Raises `Overdue`."""
        await self._until(self.home.kubeconfig, exists=True)
        return client_of(Kubeconfig.load([self.home.kubeconfig]).context())

    @property
    def components(self) -> Components | None:
        """None: the machines are simulated."""
        return None

    async def reach_machines(self, key: Key, kubeconfig: bytes) -> None:
        """Do nothing: what is simulated in the management cluster reaches them."""

    async def remove(self) -> None:
        """Stop its API server and manager, and delete their data."""
        with self.home.explained():
            self.home.want_bootstrap(wanted=False)
        await self.resume()
        await self._until(self.home.database, exists=False)

    async def delete(self, key: Key) -> None:
        """Stop the process, and delete the folder."""
        if self.home.root.exists():
            await self._espalier("down", "--delete-data")
            with self.home.explained():
                shutil.rmtree(self.home.root)

    def left(self) -> list[str]:
        """The folder, and the process that simulates the machines."""
        return [
            f"{self.home.root}: the data of its simulated machines, and of the API servers on them",
            f"the process that simulates them; `ESPALIER_HOME={self.home.root} espalier down` stops it",
        ]

    async def _until(self, file: Path, *, exists: bool) -> None:
        """Wait for what the process does to a file. Raises `Overdue`, and `Failure` if it has ended."""
        for _ in range(round(_PATIENCE / _PAUSE)):
            if file.exists() is exists:
                return
            if not self.home.is_running():
                raise Failure(f"the bootstrap has ended; see {self.home.log}, and give the command again")
            await asyncio.sleep(_PAUSE)
        what = "start" if exists else "end"
        raise Overdue(f"the bootstrap did not {what} within {_PATIENCE:g} s; see {self.home.log}")

    async def _espalier(self, *arguments: str) -> None:
        """Run a command for this environment. Raises `Failure` with its message."""
        environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "espalier.cli", *arguments),
            env={**environment, "ESPALIER_HOME": str(self.home.root)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, told = await process.communicate()
        if process.returncode:
            text = told.decode(errors="replace").rpartition("error: ")[2].strip()
            failure = Failure(f"the bootstrap in {self.home.root}: {text}")
            failure.exit = Exit(process.returncode) if process.returncode in list(Exit) else Exit.REFUSED
            raise failure


class GivenBootstrap:
    """An existing local environment, which stays, as do its machines."""

    def __init__(self, kubeconfig: Path, home: Home) -> None:
        """Raises `Failure` for any other API server than that of the local environment."""
        self._home = home
        self._access = Kubeconfig.load([kubeconfig]).context()
        self.title = str(kubeconfig)
        self.stopped = ""
        self.flag = f" --bootstrap-kubeconfig {shown_commands.path(kubeconfig)}"
        local = Kubeconfig.load([home.kubeconfig]).context().server if home.kubeconfig.exists() else "none"
        if self._access.server != local:
            raise Failure(
                f"--bootstrap-kubeconfig: found {self._access.server}, allowed is the API server of the local "
                f"environment ({local}; `espalier up` starts one): on real infrastructure, the components of Cluster "
                "API would be needed as files, which is not supported yet"
            )

    async def is_in_use(self, key: Key) -> bool:
        """True if there is a record of an operation."""
        client = await self.connect()
        try:
            record = await records.read(client)
        finally:
            await client.close()
        return record is not None and record.key == key

    async def has_begun(self, key: Key) -> bool:
        """The same: it runs."""
        return await self.is_in_use(key)

    async def start(self) -> None:
        """Do nothing: it runs."""

    async def connect(self) -> Client:
        """A client of its API server. Raises `Unreachable`."""
        return client_of(self._access)

    @property
    def components(self) -> Components | None:
        """Those that the environment has for its real nodes."""
        return Components.read(self._home.components)

    async def reach_machines(self, key: Key, kubeconfig: bytes) -> None:
        """Give the environment a kubeconfig: it manages the real nodes of all that it has one of."""
        if self.components is not None:
            self._home.managers.mkdir(mode=0o700, parents=True, exist_ok=True)
            lifecycle.write_private(self._home.kubeconfig_of_manager(*key), kubeconfig)

    async def remove(self) -> None:
        """Delete the record of the operation, and take the GitOps configuration back; the rest was there before."""
        client = await self.connect()
        try:
            await handed_over.take_back_name(client)
            await records.forget(client)
        finally:
            await client.close()

    async def delete(self, key: Key) -> None:
        """The same, and let the environment forget the cluster."""
        self._home.kubeconfig_of_manager(*key).unlink(missing_ok=True)
        with suppress(OSError):
            self._home.managers.rmdir()
        await self.remove()

    def left(self) -> list[str]:
        """The environment with its machines."""
        if self.components is not None:
            return [f"the local environment of {self.title}, which manages the real nodes of the cluster"]
        return [f"the local environment of {self.title}, on whose simulated machines the cluster runs"]


def client_of(access: Access) -> Client:
    """A client as all commands have it."""
    transport = ThreadedTransport(access, max_requests=connection.MAX_REQUESTS)
    return Client(
        transport,
        field_manager=connection.FIELD_MANAGER,
        user_agent="espalier-cli",
        on_warning=connection.print_each_once(without=messages.PAUSED_RECORD),
    )
