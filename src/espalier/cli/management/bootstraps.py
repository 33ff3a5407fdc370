"""Bootstraps: an API server with a manager, Cluster API and machines, from which a management cluster is created."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from espalier.api.resource import Key
from espalier.cli.clusters import lifecycle
from espalier.cli.clusters.manifests import credential_secrets
from espalier.cli.kit import shown_commands
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.announcing import Announcing
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Exit, Failure, Overdue
from espalier.cli.management import self_managed
from espalier.cli.management.components.components import Components
from espalier.clusters.observe.rules import messages
from espalier.kube.client import Client
from espalier.kube.connection.access import Access
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.threaded import ThreadedTransport
from espalier.management import handed_over
from espalier.management import record as records
from espalier.providers.registry import PROVIDERS

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
    def has_real_nodes(self) -> bool:
        """True if its machines are not simulated."""

    @property
    def components(self) -> Components | None:
        """The programs of a management cluster on its real nodes, once it runs; None without any. Raises `Failure`."""

    async def reach_machines(self, key: Key, kubeconfig: bytes) -> None:
        """Have a management cluster that it created act on its machines, too; idempotent."""

    async def remove(self, key: Key) -> list[str]:
        """Remove it once a cluster manages itself, but not the machines; idempotent. Returns what people should know of
        what was done."""
        ...

    async def delete(self, key: Key) -> list[str]:
        """Remove it with everything that belongs to a cluster, once that is gone; idempotent. Returns the same."""
        ...

    def left(self) -> list[str]:
        """The folders and processes that stay on this machine after `remove`."""

    @property
    def data(self) -> str:
        """The data that it has while it is used, for a list of steps."""


@dataclass(frozen=True)
class Nodes:
    """The machines of a bootstrap that is started: simulated ones, or real nodes."""

    boot_seconds: float = 0.2
    is_real: bool = False
    addresses: str = ""
    """The range of real nodes; empty for the usual one."""


def has_simulated_machines(home: Home) -> bool:
    """True if a local environment was begun with simulated machines: it can't get real nodes."""
    return not home.components.exists() and (home.database.exists() or home.clusters.exists())


class LocalBootstrap:
    """A background process of this machine, with its machines. These stay with it when the bootstrap goes."""

    def __init__(self, home: Home, nodes: Nodes) -> None:
        self.home = home
        self.flag = ""
        self._nodes = nodes
        self.has_real_nodes = home.components.exists() or (nodes.is_real and not has_simulated_machines(home))

    @property
    def title(self) -> str:
        """Where it is."""
        return str(self.home.root)

    @property
    def data(self) -> str:
        """Those of the process."""
        return _data(self.title, self.components)

    @property
    def stopped(self) -> str:
        """`espalier up` in its folder."""
        return "" if self.home.is_running() else self_managed.resumption(self.home)

    async def is_in_use(self, key: Key) -> bool:
        """True if the bootstrap is wanted."""
        await self.resume()
        return self.home.has_bootstrap()

    async def has_begun(self, key: Key) -> bool:
        """True if the bootstrap is wanted."""
        return self.home.has_bootstrap()

    async def start(self) -> None:
        """Have the process run, and the bootstrap in it. Nothing is left of one that can't start on this machine."""
        is_new = not self.home.root.exists()
        with self.home.explained():
            self.home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.home.want_bootstrap(wanted=True)
            if self.has_real_nodes:
                self.home.managers.mkdir(mode=0o700, exist_ok=True)
        try:
            await self.resume()
        except Failure as failure:
            if is_new and failure.exit is Exit.REFUSED:
                shutil.rmtree(self.home.root, ignore_errors=True)
            raise

    async def resume(self) -> None:
        """Have the process run, with or without a bootstrap as it was."""
        if not self.home.is_running():
            real = ("--nodes", "real", "--node-addresses", self._nodes.addresses) if self.has_real_nodes else ()
            await self._espalier("up", "--detach", "--boot-seconds", str(self._nodes.boot_seconds), *real)

    async def connect(self) -> Client:
        """A client, once its API server answers. Raises `Overdue`."""
        await self._until(self.home.kubeconfig, exists=True)
        return client_of(Kubeconfig.load([self.home.kubeconfig]).context())

    @property
    def components(self) -> Components | None:
        """Those that the process has for real nodes."""
        return Components.read(self.home.components)

    async def reach_machines(self, key: Key, kubeconfig: bytes) -> None:
        """Give the process a kubeconfig, if the nodes are real."""
        if self.has_real_nodes:
            await _give_kubeconfig(self.home, key, kubeconfig)

    async def remove(self, key: Key) -> list[str]:
        """Stop its API server and manager, and delete their data."""
        with self.home.explained():
            self.home.want_bootstrap(wanted=False)
        await self.resume()
        await self._until(self.home.management if self.has_real_nodes else self.home.database, exists=False)
        return []

    async def delete(self, key: Key) -> list[str]:
        """Stop the process, and delete the folder."""
        if self.home.root.exists():
            await self._espalier("down", "--delete-data")
            with self.home.explained():
                shutil.rmtree(self.home.root)
        return []

    def left(self) -> list[str]:
        """The folder, and the process that simulates the machines, or manages real nodes."""
        if self.has_real_nodes:
            return [
                f"{self.home.root}: the real nodes of the cluster (docs/real-nodes.md)",
                "the process that creates and deletes nodes for it; "
                f"`{self_managed.resumption(self.home)}` starts it again",
            ]
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


class ExistingBootstrap:
    """A management cluster that runs, and stays."""

    has_real_nodes = False
    stopped = ""

    def __init__(self, kubeconfig: Path) -> None:
        self._access = Kubeconfig.load([kubeconfig]).context()
        self.title = str(kubeconfig)
        self.flag = f" --bootstrap-kubeconfig {shown_commands.path(kubeconfig)}"

    async def is_in_use(self, key: Key) -> bool:
        """True if there is a record of an operation."""
        client = await self.connect()
        try:
            record = await records.read(client, key)
        finally:
            await client.close()
        return record is not None

    async def has_begun(self, key: Key) -> bool:
        """The same: it runs."""
        return await self.is_in_use(key)

    async def connect(self) -> Client:
        """A client of its API server. Raises `Unreachable`."""
        return client_of(self._access)

    async def remove(self, key: Key) -> list[str]:
        """Delete the record of the operation, what it made for GitOps, and credentials for this cluster alone; the rest
        was there before, or moved."""
        client = await self.connect()
        try:
            await handed_over.take_back_name(client, key.namespace)
            record = await records.read(client, key)
            manifest = records.objects_of(record) if record is not None else []
            moved = credential_secrets.granted_by(PROVIDERS, manifest)
            done = await credential_secrets.withdraw(PROVIDERS, client, moved)
            await records.forget(client, key)
        finally:
            await client.close()
        return done


class GivenBootstrap(ExistingBootstrap):
    """An existing local environment, which stays, as do its machines."""

    def __init__(self, kubeconfig: Path, home: Home) -> None:
        super().__init__(kubeconfig)
        self._home = home

    @property
    def data(self) -> str:
        """Those of the process."""
        return _data(self.title, self.components)

    async def start(self) -> None:
        """Have an environment of real nodes make the images that a management cluster needs. It runs."""
        if self.has_real_nodes:
            self._home.managers.mkdir(mode=0o700, exist_ok=True)

    @property
    def has_real_nodes(self) -> bool:  # type: ignore[override]
        """True if the environment has real nodes."""
        return self._home.components.exists()

    @property
    def components(self) -> Components | None:
        """Those that the environment has for its real nodes."""
        return Components.read(self._home.components)

    async def reach_machines(self, key: Key, kubeconfig: bytes) -> None:
        """Give the environment a kubeconfig: it manages the real nodes of all that it has one of."""
        if self.has_real_nodes:
            await _give_kubeconfig(self._home, key, kubeconfig)

    async def delete(self, key: Key) -> list[str]:
        """Remove it, and let the environment forget the cluster."""
        self._home.kubeconfig_of_manager(*key).unlink(missing_ok=True)
        if self._home.managers.exists() and not list(self._home.managers.glob("*.kubeconfig")):
            shutil.rmtree(self._home.managers, ignore_errors=True)
        return await self.remove(key)

    def left(self) -> list[str]:
        """The environment with its machines."""
        if self.has_real_nodes:
            return [f"the local environment of {self.title}, which manages the real nodes of the cluster"]
        return [f"the local environment of {self.title}, on whose simulated machines the cluster runs"]


def _data(place: str, real: Components | None) -> str:
    return f"{place}: its data, and those of the {'simulated ' if real is None else ''}machines"


async def _give_kubeconfig(home: Home, key: Key, content: bytes) -> None:
    """Have an environment of real nodes manage those of a management cluster. Returns once its images are made.

    Raises `Failure` if they can't be made.
    """
    home.managers.mkdir(mode=0o700, exist_ok=True)
    file = home.kubeconfig_of_manager(*key)
    lifecycle.replace_private(file, content)
    while True:
        try:
            problem = home.images_made.read_text()
        except FileNotFoundError:
            if not home.is_running():
                raise Failure(f"the bootstrap has ended; see {home.log}, and give the command again") from None
            await asyncio.sleep(_PAUSE)
            continue
        if not problem:
            return
        home.images_made.unlink()  # so that the next command tries again
        raise Failure(problem)


def client_of(access: Access) -> Client:
    """A client as all commands have it."""
    transport = ThreadedTransport(access, max_requests=connection.MAX_REQUESTS)
    return Client(
        Announcing(transport, access),
        field_manager=connection.FIELD_MANAGER,
        user_agent="espalier-cli",
        retry=connection.RETRY,
        on_warning=connection.print_each_once(without=messages.PAUSED_RECORD),
    )
