"""The nodes of management clusters that run on real nodes themselves.

Their infrastructure provider is on this machine, outside of them: nothing in a node can make another one. For each
kubeconfig in a folder there is a manager of nodes alone, which acts on that management cluster's objects.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import structlog

from espalier.api.core import SECRET
from espalier.api.identity import ClusterIdentity
from espalier.cli.clusters import lifecycle
from espalier.cli.kit.connecting.home import Home
from espalier.cli.local.environment import renewed_access
from espalier.clusterapi import kubeconfig as kubeconfigs
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import KubeError
from espalier.realnodes.nspawn.owners import fingerprint_of
from espalier.runtime.clock import Clock
from espalier.runtime.component import Component, assemble
from espalier.runtime.manager import Manager
from espalier.runtime.workload_clusters.remote import over_http

_PAUSE = 0.2
"""Seconds between two looks at the folder."""
_RETRY = 2.0
"""Seconds until a manager starts again, as when its API server does not answer yet."""
_RENEWAL = 3600.0
"""Seconds between two looks at the Secret with a newer certificate: it is there for half a year before the old ends."""

_log = structlog.get_logger("espalier.environment")

Machines = Callable[[str], Component]
"""The component with the controllers of nodes, for an owner."""


def other_managers(folder: Path) -> list[Path]:
    """The kubeconfigs of the management clusters."""
    return sorted(folder.glob("*.kubeconfig"))


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class NodeManagers:
    """Runs a manager of nodes for each kubeconfig in a folder, as long as that is there; and has the images of
    management clusters made once the folder is there.
    """

    def __init__(
        self,
        home: Home,
        machines: Machines,
        make_images: Callable[[], Awaitable[str]],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        """`make_images` returns why it failed, or nothing."""
        self._home = home
        self._make_images = make_images
        self._making: asyncio.Task[None] | None = None
        self._machines = machines
        self._clock = clock
        self._rng = rng
        self._running: dict[tuple[Path, bytes], asyncio.Task[None]] = {}
        self._unreadable: set[Path] = set()

    async def run(self) -> None:
        """Follow the folder until cancelled."""
        self._home.images_made.unlink(missing_ok=True)
        try:
            while True:
                await self._follow()
                await asyncio.sleep(_PAUSE)
        finally:
            await self._stop(list(self._running))
            if self._making is not None:
                await ended(self._making)

    async def _follow(self) -> None:
        is_wanted, is_told = self._home.managers.is_dir(), self._home.images_made.exists()
        if is_wanted and not is_told and (self._making is None or self._making.done()):
            self._making = asyncio.create_task(self._make(), name="images")
        wanted, unreadable = set(), set()
        for file in other_managers(self._home.managers):
            try:
                wanted.add((file, file.read_bytes()))
            except FileNotFoundError:
                continue
            except OSError as error:
                wanted |= {place for place in self._running if place[0] == file}
                unreadable.add(file)
                if file not in self._unreadable:
                    _log.warning(
                        "the kubeconfig of a management cluster can't be read", kubeconfig=str(file), error=str(error)
                    )
        self._unreadable = unreadable
        await self._stop([place for place in self._running if place not in wanted])
        for file, content in wanted - self._running.keys():
            work = self._manage(file, content)
            self._running[file, content] = asyncio.create_task(work, name=f"nodes of {file.name}")

    async def _stop(self, places: list[tuple[Path, bytes]]) -> None:
        tasks = [self._running.pop(place) for place in places]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _make(self) -> None:
        try:
            problem = await self._make_images()
        except Exception as error:  # whatever it was: a command waits for the outcome
            problem = f"the images of management clusters can't be made: {str(error) or type(error).__name__}"
            _log.warning("the images of management clusters can't be made", exc_info=True)
        staged = self._home.images_made.with_suffix(".new")
        with suppress(FileNotFoundError):  # the last management cluster was deleted
            staged.write_text(problem)
            staged.replace(self._home.images_made)

    async def _manage(self, file: Path, content: bytes) -> None:
        while True:
            try:
                await self._manage_once(file, content)
            except Exception as error:  # whatever it was, the nodes of this cluster need their manager
                _log.warning(
                    "the nodes of a management cluster are not managed", kubeconfig=str(file), error=str(error)
                )
            await asyncio.sleep(_RETRY)

    async def _manage_once(self, file: Path, content: bytes) -> None:
        access = Kubeconfig.parse(content).context()
        client = over_http(content)
        try:
            manager = Manager(client, clock=self._clock, rng=self._rng, own_account=False, fill_within=None)
            owner = fingerprint_of(access.certificate_authority)
            assemble(manager, [self._machines(owner)], client=client)
            renewal = asyncio.create_task(self._renew(file, content, client), name=f"certificate of {file.name}")
            try:
                await manager.run()
            finally:
                await ended(renewal)
        finally:
            await client.close()

    async def _renew(self, file: Path, content: bytes, client: Client) -> None:
        """Replace a kubeconfig as soon as Cluster API has a newer certificate for it, until cancelled."""
        key = kubeconfigs.secret_key(ClusterIdentity.of(self._home.manager_of(file)).capi)
        refusal = ""
        while True:
            try:
                secret = await client.get(SECRET, key.name, key.namespace)
                newer = renewed_access.renewed(content, kubeconfigs.content(secret) or b"", self._clock.now())
                if newer is not None and file.read_bytes() == content:
                    lifecycle.replace_private(file, newer)
                    _log.info("the certificate for a management cluster was renewed", kubeconfig=str(file))
                    return
            except (KubeError, OSError, ValueError) as error:
                if str(error) != refusal:
                    refusal = str(error)
                    _log.warning(
                        "the certificate for a management cluster is not renewed",
                        kubeconfig=str(file),
                        secret=str(key),
                        error=refusal,
                    )
            await asyncio.sleep(_RENEWAL)
