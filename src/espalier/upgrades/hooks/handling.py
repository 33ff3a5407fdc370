"""The hooks: each takes the body of a request and returns that of the response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import structlog

from espalier.api.eksa.upgrades import refusal
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_REFUSED
from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.clusterapi.infrastructures.infrastructure import Infrastructures
from espalier.kube.errors import KubeError
from espalier.runtime.controllers.writer import Precondition
from espalier.runtime.servers.webhooks import BadBody, Endpoint
from espalier.upgrades.hooks import classify, wire
from espalier.upgrades.hooks.classify import InPlaceChanges
from espalier.upgrades.hooks.machines import Updates
from espalier.upgrades.hooks.queries import Owner, Queries, Unanswerable

ANSWER_SECONDS = wire.CALL_SECONDS - 2.0
"""Seconds; Cluster API gives up after `CALL_SECONDS`, and would not learn the reason."""

T = TypeVar("T")

_log = structlog.get_logger("espalier.hooks")


@dataclass(frozen=True)
class Hooks:
    """Answers Cluster API. A request that can't be answered fails, so that no machine is replaced because of it."""

    queries: Queries
    updates: Updates
    infrastructures: Infrastructures

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """The hooks by path."""
        return {
            wire.DISCOVERY_PATH: self._discover,
            wire.path_of(wire.CAN_UPDATE_MACHINE): self._bounded(wire.CAN_UPDATE_MACHINE, self.can_update_machine),
            wire.path_of(wire.CAN_UPDATE_MACHINE_SET): self._bounded(wire.CAN_UPDATE_MACHINE_SET, self.can_update_set),
            wire.path_of(wire.UPDATE_MACHINE): self._bounded(wire.UPDATE_MACHINE, self.update_machine),
        }

    async def can_update_machine(self, body: bytes) -> bytes:
        """The response to CanUpdateMachine: patches for what can be changed in place on a control plane machine.

        There are none if the control plane has no in-place strategy. Raises `BadBody`, `Unanswerable`, `KubeError`.
        """
        request = _decoded(body, wire.CanUpdateMachineRequest)
        name, labels = _identity(request.current.machine)
        owner = await self.queries.control_plane(labels) if name else None
        if owner is None or not owner.fallback:
            return wire.accepted(wire.CAN_UPDATE_MACHINE, {})
        in_place_changes = classify.of_machine(request.current, request.desired, self.infrastructures)
        answer = await self._response(wire.CAN_UPDATE_MACHINE, owner, in_place_changes, f"Machine {name}")
        if in_place_changes.patches and not in_place_changes.is_refused:
            await self.updates.record_traits([await self.queries.machine(name)])
        return answer

    async def can_update_set(self, body: bytes) -> bytes:
        """The response to CanUpdateMachineSet: the same for the machines of a MachineSet."""
        request = _decoded(body, wire.CanUpdateMachineSetRequest)
        name, labels = _identity(request.current.machine_set)
        owner = await self.queries.deployment(labels) if name else None
        if owner is None or not owner.fallback:
            return wire.accepted(wire.CAN_UPDATE_MACHINE_SET, {})
        in_place_changes = classify.of_set(request.current, request.desired, self.infrastructures)
        subject = f"MachineDeployment {owner.object.key}"
        answer = await self._response(wire.CAN_UPDATE_MACHINE_SET, owner, in_place_changes, subject)
        if in_place_changes.patches and not in_place_changes.is_refused:
            await self.updates.record_traits(await self.queries.machines_of(name, owner.object))
        return answer

    async def update_machine(self, body: bytes) -> bytes:
        """The response to UpdateMachine: start the upgrade of a machine, or report its progress."""
        request = _decoded(body, wire.UpdateMachineRequest)
        name, _ = _identity(request.desired.machine)
        if not name:
            return wire.failure(wire.UPDATE_MACHINE, f"only machines in namespace {SYSTEM_NAMESPACE} are upgraded")
        return wire.progress(await self.updates.update(request.desired))

    async def _response(self, hook: str, owner: Owner, in_place_changes: InPlaceChanges, subject: str) -> bytes:
        """The patches, or a failure if the machines may not be replaced; the refusal is recorded on the owner."""
        sentence = in_place_changes.sentence(subject)
        await self._record_refusal(owner, sentence)
        if sentence and owner.fallback != "RollingUpdate":
            return wire.failure(hook, sentence)
        return wire.accepted(hook, in_place_changes.patches)

    async def _record_refusal(self, owner: Owner, sentence: str) -> None:
        """Annotate the owner with what can't be changed in place, for the status of its Cluster."""
        metadata = owner.object.metadata
        wanted = refusal(metadata.generation, sentence) if sentence else None
        patch: Tree = {"metadata": {"annotations": {IN_PLACE_REFUSED: wanted}}}
        try:
            await self.updates.writer.merge(owner.resource, owner.object, patch, Precondition.UID)
        except KubeError as error:  # the response matters more
            _log.warning("could not record a refusal on its owner", owner=str(owner.object.key), error=str(error))

    async def _discover(self, body: bytes) -> bytes:
        return wire.discovery()

    def _bounded(self, hook: str, answer: Callable[[bytes], Awaitable[bytes]]) -> Endpoint:
        async def respond(body: bytes) -> bytes:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await answer(body)
            except (Unanswerable, KubeError) as error:
                return wire.failure(hook, str(error))
            except TimeoutError:
                return wire.failure(hook, f"the management cluster did not answer within {ANSWER_SECONDS:g} s")

        return respond


def _decoded(body: bytes, type_: type[T]) -> T:
    try:
        return json_trees.decode(body, type_)
    except msgspec.MsgspecError as error:
        raise BadBody(f"not a {type_.__name__} of {wire.API_VERSION}: {error}") from error


def _identity(object_: Tree) -> tuple[str, Mapping[str, str]]:
    """Name and labels of an object; the name is empty outside the system namespace."""
    metadata = object_.get("metadata") or {}
    name = metadata.get("name", "") if metadata.get("namespace") == SYSTEM_NAMESPACE else ""
    return name, metadata.get("labels") or {}
