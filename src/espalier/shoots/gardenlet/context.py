"""The argument of every task: the observed scope, and the means to act."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Protocol

from espalier.api.gardener.etcd import Store
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.sources import Expiry
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.bucket_providers import BucketProviders
from espalier.shoots.gardenlet import rendering
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.gardenlet.rendering import Rendered
from espalier.shoots.gardenlet.scope import Scope
from espalier.shoots.secrets.persisted import Data
from espalier.shoots.state.store import ShootStates
from espalier.shoots.state.stored import StoredState

Call = Callable[[str, str, bytes, Data | None], Awaitable[bytes]]
"""Calls the etcd agent of a namespace: namespace, path (`copyop/initiate`), body, and the files of its members' Secret
(None: without TLS). Raises the errors of a failed call."""

ReadBackup = Callable[[Store, Mapping[str, bytes], str], Awaitable[str]]
"""Reads a small object of an etcd's store with these credentials: the store, files by name, the key below its prefix.
Returns the reason why it can't be read; empty if it can."""

Connect = Callable[[str], Awaitable[str]]
"""Connects to a store without credentials: the URL of its server, or of the folder that has its buckets. Returns the
reason why it can't be reached, in the same words for the same cause; empty if it can."""


@dataclass(frozen=True)
class ShootHealth:
    """The answer of a shoot's API server about nodes and system components."""

    unreachable: str = ""
    """The reason why it could not be asked; then nothing else is known."""
    nodes: int = 0
    unready_nodes: tuple[str, ...] = ()
    unready_components: tuple[str, ...] = ()
    """Kind and name of each."""


class ShootAPIs(Protocol):
    """Queries the API servers of shoots, by their namespaces."""

    async def silent_nodes(self, namespace: str, since: datetime) -> list[str]:
        """The nodes that have not renewed their Leases since a moment."""
        ...

    async def release_leases(self, namespace: str, controllers: Sequence[str]) -> None:
        """Remove the holders of the Leases by which these controllers elect a leader. Raises `KubeError`."""
        ...

    async def apply(self, namespace: str, objects: Sequence[tuple[Resource, Tree]]) -> None:
        """Apply objects of the shoot. Raises `KubeError`."""
        ...

    async def health(self, namespace: str) -> ShootHealth:
        """The health of nodes and system components, as far as the API server answers."""
        ...


class Renderer(Protocol):
    """Renders the objects of a shoot's control plane in the seed, except its etcd."""

    def services(self, shoot: Shoot, namespace: str) -> list[Tree]:
        """The Services by which its parts find each other."""
        ...

    def roles_in_shoot(self) -> list[tuple[Resource, Tree]]:
        """The objects of the shoot that give rights to machine-controller-manager, and to machines that join."""
        ...

    def service_account(self, namespace: str, in_shoot: str) -> Tree:
        """The ServiceAccount of machine-controller-manager, which has a client of the seed. `in_shoot` is the digest
        of its rights in the shoot, or empty."""
        ...

    def role_binding(self, namespace: str) -> Tree:
        """The RoleBinding that gives it its rights in the namespace of the shoot."""
        ...

    def deployment(self, name: str, shoot: Shoot, namespace: str, replicas: int, client_secret: str = "") -> Tree:
        """The Deployment of kube-apiserver, kube-controller-manager, kube-scheduler or machine-controller-manager.
        `client_secret`: the Secret with which kube-apiserver reaches etcd; empty without TLS."""
        ...


@dataclass(frozen=True)
class GardenletTools:
    """Shared by all reconciles."""

    config: GardenletConfig
    seed: Writer
    garden: Writer
    clock: Clock
    rng: random.Random | None
    """The generator of keys; None in production."""
    renderer: Renderer
    call: Call
    bucket_providers: BucketProviders
    states: ShootStates
    lease_waits: Expiry
    """The leases of sources that this process has waited for; a restart waits for them again."""
    handovers: Expiry
    """The etcds of which this process has asked for the handover; a restart gives them the whole time again."""
    read_backup: ReadBackup | None = None
    """None if buckets can't be read here: they are then not checked."""
    shoots: ShootAPIs | None = None
    """None if shoots can't be queried."""
    shoot_roles: Expiry = field(default_factory=Expiry)
    """The roles that this process has applied in shoots, until they are due again."""


@dataclass
class Live:
    """Objects that were read live for this reconcile, or written since."""

    shoot: Object
    state: Object | None
    """The ShootState."""
    stored: StoredState | None = None
    """The stored state of a shoot that is restored."""


@dataclass(frozen=True)
class ShootContext:
    """One observation of one shoot."""

    scope: Scope
    tools: GardenletTools
    live: Live
    operation: OperationType

    @property
    def namespace(self) -> str:
        """The shoot's namespace in the seed."""
        return self.scope.technical_id

    async def call_agent(self, path: str, body: bytes) -> bytes:
        """Call the agent of the shoot's etcd. Raises the errors of a failed call."""
        return await self.tools.call(self.namespace, path, body, self.scope.peer_files)

    @cached_property
    def rendered(self) -> tuple[Rendered, ...]:
        """All extension resources that the shoot needs, rendered once for all tasks."""
        config = self.tools.config
        return tuple(rendering.extensions(self.scope, config.dns_type, config.domain, config.dns_ttl))
