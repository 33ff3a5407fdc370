"""A shoot that moves: the actions and the measurements. On the real clock or on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from espalier.api.cloud import Create, Delete
from espalier.api.core import NAMESPACE, NODE, POD, SECRET
from espalier.api.etcd.timing import Timing
from espalier.api.gardener import names
from espalier.api.gardener.extensions import extension_backups
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.api.version_matrix import DEFAULT_ROW, KUBERNETES, ROWS
from espalier.cli.local.environment.garden import garden_objects
from espalier.cli.local.environment.garden.garden_objects import PROVIDER
from espalier.cli.local.environment.garden.gardens import Garden, Settings
from espalier.cli.local.environment.garden.shoot_writer import WriteProbe
from espalier.etcdbackup.agent.backups import Settings as BackupSettings
from espalier.etcdbackup.snapshotter.collection import Retention
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.kube.client import PatchType
from espalier.kube.errors import AlreadyExists, KubeError
from espalier.shoots.garden.config import GardenConfig
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.secrets.names import PERSISTED

PROJECT, NAME, NODES = "dev", "apple", 3
POD_ON = "web-on-{node}"
WEB: Sequence[Tree] = ({"name": "web", "image": "web"},)
TECHNICAL_ID = names.technical_id(PROJECT, NAME)
GARDEN_NAMESPACE = names.project_namespace(PROJECT)
POLL_INTERVAL = 0.25
VERSION = KUBERNETES[ROWS[DEFAULT_ROW].nodes[-2]].patch
"""Of a shoot whose control plane is simulated."""
PATIENCE = 300.0
"""Seconds after which a wait times out."""
DELTA_PERIOD = 5.0

QUICK = Timing(
    poll_period=0.5,
    store_timeout=0.5,
    validity=2,
    serving_grace=10,  # of the embedded API server, and not shortened for a demonstration
    snapshot_timeout=5,
    progress_period=1,
    progress_timeout=14,
    copy_timeout=20,
    lease_validity=6,
    lease_renewal=2,
    longest_reconcile=5,
    clock_skew=1,
    lease_wait=13,
)
"""Times that are as short as their inequalities allow, for a small etcd on one machine."""


def quick_settings(*, random_keys: bool = True, timing: Timing = QUICK, nodes_timeout: float = 20) -> Settings:
    """Settings with which a migration takes seconds, and a silent seed is given up after 15 s."""
    return Settings(
        garden=GardenConfig(heartbeat_grace=6, give_up_after=15, monitor_period=1),
        gardenlet=GardenletConfig(
            "", timing=timing, dns_type=PROVIDER, dns_ttl=1, heartbeat=1, agent_poll=0.5, nodes_timeout=nodes_timeout
        ),
        backups=BackupSettings(Schedule(delta_period=DELTA_PERIOD), Retention()),
        boot_seconds=2,
        random_keys=random_keys,
    )


class Identities(NamedTuple):
    """Values that must not change when a shoot moves: UIDs of nodes and pods by name, and the persisted secrets."""

    nodes: dict[str, str]
    pods: dict[str, str]
    secrets: dict[str, Tree]


@dataclass(frozen=True)
class Move:
    """Measurements of one move."""

    source: str
    destination: str
    what: str
    seconds: float
    gap: float
    acknowledged: int
    """Writes of the whole demonstration so far."""
    lost: int
    """Acknowledged writes that existed before the move and are gone."""
    nodes_kept: int
    pods_kept: int
    secrets_kept: int
    creates: int
    deletes: int
    left: tuple[str, ...] | None
    """The remains of the shoot on the source; None for a source that is destroyed or cut off."""


class MigrationScenario:
    """A shoot in a garden, and its moves. `tell` gets what is waited for."""

    def __init__(
        self,
        garden: Garden,
        tell: Callable[[str], None] = lambda _text: None,
        *,
        writes_every: float = 0.2,
        version: str = VERSION,
        nodes: int = NODES,
        containers: Sequence[Tree] = WEB,
    ) -> None:
        """`containers` are those of the pod on each of the `nodes`."""
        self._garden, self._tell, self._version = garden, tell, version
        self._node_count, self._containers = nodes, list(containers)
        self.writer = WriteProbe(lambda: garden.shoot(TECHNICAL_ID), garden.clock, period=writes_every)
        self._lost: set[int] = set()

    @asynccontextmanager
    async def begun(self, seed: str) -> AsyncIterator[None]:
        """Create the shoot, wait for its nodes, put a pod on each, and let the writer write within the block."""
        if self._version not in garden_objects.VERSIONS:  # that of the programs of this machine
            offer = {"spec": garden_objects.cloud_profile(self._version)["spec"]}
            await self._garden.client.patch(CloudProfile.resource, PROVIDER, patch=offer, type=PatchType.MERGE)
        nodes = (self._node_count, self._node_count)
        body = garden_objects.shoot(NAME, GARDEN_NAMESPACE, version=self._version, nodes=nodes, seedName=seed)
        await self._garden.client.create(Shoot.resource, body)
        await self.settled(seed)
        await self._until(self._has_nodes, "nodes of the shoot join")
        await self._until(self._has_pods, "a pod runs on each node")
        writing = asyncio.create_task(self.writer.run(), name="writer")
        try:
            yield
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def shoot(self) -> Shoot:
        """The current Shoot."""
        return (await self._garden.client.get(Shoot.resource, NAME, GARDEN_NAMESPACE)).decode(Shoot)

    async def move(
        self,
        destination: str,
        what: str,
        *,
        destroy_source: bool = False,
        give_up_source: bool = False,
        leave_source: bool = False,
        trouble: Callable[[], Awaitable[None]] | None = None,
    ) -> Move:
        """Move the shoot, and measure. Just before, its seed loses its power (`destroy_source`), or `trouble` happens.

        With `give_up_source` nobody waits for a sign of life of it, with `leave_source` until it has cleaned up.
        """
        garden, clock = self._garden, self._garden.clock
        source = (await self.shoot()).status.seed_name or ""
        before = await self._identities(source)
        began, since = clock.monotonic(), clock.now()
        if destroy_source:
            await garden.seeds[source].power_off()
        if trouble is not None:
            await trouble()
        patch: Tree = {"spec": {"seedName": destination}}
        if give_up_source:
            patch["metadata"] = {"annotations": {metadata_keys.FORCE_RESTORE: "true"}}
        await garden.client.patch(Shoot.resource, NAME, GARDEN_NAMESPACE, patch=patch, type=PatchType.MERGE)
        await self.settled(destination)
        await self._until(self._writes, "the writer gets responses again")
        ended = clock.monotonic()
        leave_source |= destroy_source
        if not leave_source:
            await self._until(lambda: self._is_gone(source), f"seed {source} is cleaned up")
        after = await self._identities(destination)
        lost = set(await self.writer.lost(clock.monotonic() - 1)) - self._lost
        self._lost |= lost
        writes = list(garden.cloud.log.writes(since))
        return Move(
            source=source,
            destination=destination,
            what=what,
            seconds=ended - began,
            gap=self.writer.gap(began, clock.monotonic()),
            acknowledged=len(self.writer.acknowledged),
            lost=len(lost),
            nodes_kept=_unchanged(before.nodes, after.nodes),
            pods_kept=_unchanged(before.pods, after.pods),
            secrets_kept=_unchanged(before.secrets, after.secrets),
            creates=sum(isinstance(write.call, Create) for write in writes),
            deletes=sum(isinstance(write.call, Delete) for write in writes),
            left=None if leave_source else tuple(await self.left(source)),
        )

    async def returned(self, seed: str) -> int:
        """Power a destroyed seed on, and wait until it has cleaned up. Returns its calls to the cloud."""
        since = self._garden.clock.now()
        await self._garden.seeds[seed].power_on()
        await self._until(lambda: self._is_gone(seed), f"seed {seed} returns, and cleans up what it had of the shoot")
        return sum(1 for _ in self._garden.cloud.log.of(since, f"seed {seed}"))

    async def settled(self, seed: str) -> None:
        """Wait until the shoot is healthy on a seed."""

        async def is_settled() -> bool:
            try:
                shoot = await self.shoot()
            except KubeError:  # the garden's API server may go away; Gardener's knows no user when it starts
                return False
            last = shoot.status.last_operation
            if last is not None and (shoot.status.seed_name != seed or not last.finished):
                self._tell(f"{last.type} {last.progress} %: {last.description.partition('; ')[0]}")
            elif shoot.spec.seed_name != shoot.status.seed_name:
                self._tell("waiting for the garden")
            is_done = last is not None and last.finished and last.type != OperationType.MIGRATE
            return shoot.spec.seed_name == shoot.status.seed_name == seed and is_done

        await self._until(is_settled, "")

    async def left(self, seed: str) -> list[str]:
        """The remains of the shoot in a seed."""
        client = self._garden.seeds[seed].client
        remains = []
        for resource in (NAMESPACE, Cluster.resource, extension_backups.BackupEntry.resource):
            listed = await client.list(resource)
            remains += [f"{item.kind} {item.name}" for item in listed.items if TECHNICAL_ID in item.name]
        return remains

    async def _is_gone(self, seed: str) -> bool:
        return not await self.left(seed)

    async def _identities(self, seed: str) -> Identities:
        shoot, cluster = self._garden.shoot(TECHNICAL_ID), self._garden.seeds[seed].client
        nodes = {item.name: item.metadata.uid for item in (await shoot.list(NODE)).items}
        pods = {item.name: item.metadata.uid for item in (await shoot.list(POD, "default")).items}
        secrets = {item.name: item.tree["data"] for item in (await cluster.list(SECRET, TECHNICAL_ID)).items}
        return Identities(nodes, pods, {name: secrets[name] for name in PERSISTED if name in secrets})

    async def _nodes(self) -> list[str]:
        try:
            return [item.name for item in (await self._garden.shoot(TECHNICAL_ID).list(NODE)).items]
        except KubeError:
            return []

    async def _has_nodes(self) -> bool:
        return len(await self._nodes()) == self._node_count

    async def _has_pods(self) -> bool:
        shoot = self._garden.shoot(TECHNICAL_ID)
        try:
            for node in await self._nodes():
                pod = {"nodeName": node, "containers": self._containers}
                with suppress(AlreadyExists):
                    await shoot.create(
                        POD, {"metadata": {"name": POD_ON.format(node=node), "namespace": "default"}, "spec": pod}
                    )
        except KubeError:  # the namespace has no ServiceAccount yet
            return False
        return True

    async def _writes(self) -> bool:
        return bool(self.writer.acknowledged) and not self.writer.last_error

    async def _until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        if what:
            self._tell(what)
        end = self._garden.clock.monotonic() + PATIENCE
        while not await holds():
            if self._garden.clock.monotonic() > end:
                last = (await self.shoot()).status.last_operation
                raise TimeoutError(f"timed out after {PATIENCE:g} s: {what}; the last operation: {last}")
            await asyncio.sleep(POLL_INTERVAL)


def _unchanged(before: dict[str, Tree] | dict[str, str], after: dict[str, Tree] | dict[str, str]) -> int:
    return sum(after.get(name) == value for name, value in before.items())
