"""One look at a shoot, for tests of single tasks: a seed that owns it, and what is said to be there."""

from __future__ import annotations

import dataclasses
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from espalier.api.core import SECRET
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.gardenlet.context import GardenletTools, Live, ShootContext
from espalier.shoots.gardenlet.scope import Scope
from tests.support.etcd.peer_secrets import PeerSecrets

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TECHNICAL_ID = "shoot--dev--apple"
STARTED = Ownership().add("a", "bucket-a").start(1, "a")


def an_object(resource: Resource, name: str, namespace: str = "", **parts: Any) -> Object:
    metadata = {"name": name, "uid": f"uid of {name}", **parts.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    return Object(
        msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **parts})
    )


def shoot(
    wanted: str = "a",
    has: str = "a",
    last: str = "Reconcile Succeeded",
    deletionTimestamp: str | None = None,
    **annotations: str,
) -> Object:
    kind, state = last.split()
    status: Tree = {
        "seedName": has,
        "technicalID": TECHNICAL_ID,
        "uid": "1",
        "lastOperation": {"type": kind, "state": state},
    }
    spec = {"provider": {"type": "local"}, "seedName": wanted}
    metadata = {"uid": "1", "annotations": annotations, "deletionTimestamp": deletionTimestamp}
    return an_object(Shoot.resource, "apple", "garden-dev", metadata=metadata, spec=spec, status=status)


def etcd(epoch: int = 1, **annotations: str) -> Object:
    marks = {metadata_keys.EPOCH: str(epoch), **annotations}
    return an_object(Etcd.resource, "etcd-main", TECHNICAL_ID, metadata={"annotations": marks}, spec={"replicas": 1})


@lru_cache(maxsize=1)
def peer_secrets() -> Mapping[str, Object]:
    """The Secrets of etcd's members."""
    made = PeerSecrets()
    made.start()
    return {
        name: an_object(SECRET, name, TECHNICAL_ID, data={key: b64encode(text).decode() for key, text in data.items()})
        for name, data in made.secrets.items()
    }


def scope(ownership: Ownership = STARTED, **parts: Any) -> Scope:
    """The scope of seed `a`: nothing is there but what is named, and the Secrets of etcd's members."""
    nothing: dict[str, Any] = {field.name: None for field in dataclasses.fields(Scope)}
    empty: dict[str, Any] = {
        name: {} for name in ("secrets", "deployments", "services", "service_accounts", "role_bindings")
    }
    known = {"object": shoot(), "now": NOW, "seed_name": "a", "technical_id": TECHNICAL_ID}
    empty |= {"extensions": (), "backup_resources": (), "pod_roles": frozenset(), "secrets": peer_secrets()}
    return Scope(**{**nothing, **empty, **known, "ownership": ownership, **parts})


def context(of: Scope, operation: OperationType = OperationType.RECONCILE, **tools: Any) -> ShootContext:
    """The context of a task; of the tools only those that are named."""
    common = SimpleNamespace(config=GardenletConfig("a", Timing()), clock=SystemClock(), **tools)
    return ShootContext(of, cast(GardenletTools, common), Live(of.object, of.state), operation)
