"""Extensions that keep Gardener's contract on an infrastructure of a few notes, and fail as tests say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from espalier.api import core
from espalier.api.conditions import timestamp
from espalier.api.gardener import names
from espalier.api.gardener.extensions import leases
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.extension import Extended, Extension
from espalier.api.gardener.extensions.extension_backups import BackupEntry
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationState, OperationType
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.errors import AlreadyExists, KubeError
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.shoots.extension import operation_of
from tests.support.gardens.fast_objects import Objects

KEEP_STATE: tuple[type[Extended], ...] = (Infrastructure, Worker, Extension)


@dataclass
class Infrastructures:
    """The inventory of all shoots, and the log of who asked for what."""

    inventory: dict[tuple[str, str, str], str] = field(default_factory=dict)
    log: list[tuple[float, str, str, str, str]] = field(default_factory=list)

    def ensure(self, seed: str, shoot: str, kind: str, name: str) -> str:
        """Make it, if it is not there."""
        key = (shoot, kind, name)
        self._log(seed, "look" if key in self.inventory else "create", kind, shoot)
        return self.inventory.setdefault(key, f"{kind.lower()}-{len(self.inventory)}")

    def adopt(self, seed: str, shoot: str, kind: str, name: str, wanted: str) -> bool:
        """True if what a state tells of is there."""
        self._log(seed, "look", kind, shoot)
        return self.inventory.get((shoot, kind, name)) == wanted

    def delete(self, seed: str, shoot: str, kind: str, name: str) -> None:
        self._log(seed, "delete", kind, shoot)
        self.inventory.pop((shoot, kind, name), None)

    def count(self, what: str, seed: str | None = None) -> int:
        return sum(1 for entry in self.log if entry[2] == what and seed in (None, entry[1]))

    def _log(self, seed: str, what: str, kind: str, shoot: str) -> None:
        self.log.append((asyncio.get_running_loop().time(), seed, what, kind, shoot))


@dataclass
class Troubles:
    """Failures in the extensions of a seed."""

    stuck: set[str] = field(default_factory=set)
    """Kinds whose extensions never finish."""
    failing: dict[str, str] = field(default_factory=dict)
    """Kinds whose extensions fail, with what they say."""
    codes: list[str] = field(default_factory=list)
    """Error codes that they give."""


class FastExtension:
    """The extension of one kind in one seed."""

    def __init__(
        self,
        kind: type[Extended],
        seed: str,
        objects: Objects,
        infrastructures: Infrastructures,
        troubles: Troubles,
        *,
        now: Callable[[], datetime],
        delay: float,
    ) -> None:
        self._kind, self._seed, self._objects = kind, seed, objects
        self._infrastructures, self._troubles = infrastructures, troubles
        self._now, self._delay = now, delay
        self._finalizer = metadata_keys.finalizer(kind.__name__)

    async def reconcile(self, key: Key) -> Outcome:
        """Do the operation that is asked for."""
        live = self._objects.get(self._kind.resource, key)
        if live is None:
            return Done()
        typed = live.decode(self._kind)
        operation = operation_of(live.metadata, typed.status.last_operation)
        if operation is None:
            return Done()
        if operation is OperationType.DELETE and self._finalizer not in live.metadata.finalizers:
            return Done()
        if operation is not OperationType.MIGRATE and not self._has_lease(live):
            return Wait("LeaseExpired", "the lease is over", after=5)
        await asyncio.sleep(self._delay)
        return self._stuck() or await self._failing(live, operation) or await self._operate(live, operation)

    def _has_lease(self, live: Object) -> bool:
        if not live.namespace:
            return True
        cluster = self._objects.get(Cluster.resource, Key("", live.namespace))
        expires = leases.expiration(cluster.decode(Cluster)) if cluster is not None else None
        return expires is not None and expires > self._now()

    def _stuck(self) -> Outcome | None:
        return Wait("Stuck", "it never ends", after=30) if self._kind.__name__ in self._troubles.stuck else None

    async def _failing(self, live: Object, operation: OperationType) -> Outcome | None:
        says = self._troubles.failing.get(self._kind.__name__)
        if says is None:
            return None
        await self._error(live, operation, says)
        return Wait("Failing", "it is tried again", after=5)

    async def _operate(self, live: Object, operation: OperationType) -> Outcome:
        if operation is OperationType.DELETE:
            return await self._delete(live)
        resource, is_left = self._kind.resource, operation is OperationType.MIGRATE
        if not is_left and self._finalizer not in live.metadata.finalizers:
            live = await self._objects.metadata(
                resource, live, {"finalizers": [*live.metadata.finalizers, self._finalizer]}
            )
        status: Tree = {"lastError": None, "observedGeneration": live.metadata.generation}
        if operation is OperationType.RESTORE and self._kind in KEEP_STATE:
            if wrong := self._adopted(live):
                await self._error(live, operation, wrong)
                return Wait("StateInvalid", wrong, after=30)
        elif not is_left and live.namespace:
            result = self._infrastructures.ensure(self._seed, live.namespace, self._kind.__name__, live.name)
            if self._kind in KEEP_STATE:
                status["state"] = {"id": result}
        if self._kind is BackupEntry and not is_left and not await self._backup_secret(live):
            return Wait("NoNamespace", "the namespace is not there yet", after=2)
        status["lastOperation"] = {"type": operation, "state": OperationState.SUCCEEDED, "progress": 100}
        live = await self._objects.status(resource, live, status)
        metadata: Tree = {"annotations": {metadata_keys.OPERATION: None}}
        if is_left:
            metadata["finalizers"] = [
                finalizer for finalizer in live.metadata.finalizers if finalizer != self._finalizer
            ]
        await self._objects.metadata(resource, live, metadata)
        return Done()

    async def _delete(self, live: Object) -> Outcome:
        if live.namespace:
            self._infrastructures.delete(self._seed, live.namespace, self._kind.__name__, live.name)
        await self._objects.metadata(self._kind.resource, live, {"finalizers": []})
        return Done()

    def _adopted(self, live: Object) -> str:
        """Why the saved state can't be taken up; empty if it is."""
        state = live.tree.get("status", {}).get("state")
        name = self._kind.__name__
        if isinstance(state, dict) and self._infrastructures.adopt(
            self._seed, live.namespace, name, live.name, state["id"]
        ):
            return ""
        return f"status.state: found {state}, allowed: what this extension saved"

    async def _error(self, live: Object, operation: OperationType, says: str) -> None:
        last = {"type": operation, "state": OperationState.ERROR, "description": says}
        at = timestamp(self._now())
        error = {"description": says, "codes": self._troubles.codes, "lastUpdateTime": at}
        await self._objects.status(self._kind.resource, live, {"lastOperation": last, "lastError": error})

    async def _backup_secret(self, live: Object) -> bool:
        is_source = names.is_source_backup_entry(live.name)
        namespace = names.original_backup_entry(live.name).rpartition("--")[0]
        name = names.SOURCE_BACKUP_SECRET if is_source else names.BACKUP_SECRET
        body = {"metadata": {"name": name, "namespace": namespace}, "data": {}}
        try:
            await self._objects.client.create(core.SECRET, body)
        except AlreadyExists:
            return True
        except KubeError:
            return False
        return True
