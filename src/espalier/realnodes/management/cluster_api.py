"""Installs and runs Cluster API's own managers, and those of providers: CRDs, RBAC, webhooks and processes.

Definitions and rights are those that belong to the programs (`make real-assets` puts them beside). The API server
calls webhooks and conversions by URL, over TLS, trusting an authority that is used for nothing else. Each manager has
a client certificate of its own and the ClusterRole that its provider asks for.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import aiohttp

from espalier.api.core import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CUSTOM_RESOURCE_DEFINITION,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.trees.yaml_trees import trees
from espalier.kube.client import Client
from espalier.kube.connection.pki import Authority
from espalier.realnodes.management.control_plane import HOST, ControlPlane, stored_authority, write_private
from espalier.realnodes.management.processes import Program, ProgramFailed, Supervisor
from espalier.runtime.clock import Clock
from espalier.runtime.definitions import until_established

FIELD_MANAGER = "espalier-cluster-api"
CONTRACTS = {"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}
"""Labels of every CRD: which of its versions serves which contract of Cluster API."""

GATES: Mapping[str, bool] = {"ClusterTopology": True, "RuntimeSDK": True, "InPlaceUpdates": True, "MachinePool": False}

LIBRARY_GATES = frozenset({"ReconcilerRateLimiting"})
"""Feature gates of Cluster API's library, with which all managers are made."""

_ATTEMPTS = 3
"""Attempts to start a manager: another program may take a chosen port first."""


@dataclass(frozen=True)
class Manager:
    """One of Cluster API's managers, or of a provider's: its program, and the folder of its manifests."""

    name: str
    config: str
    gates: frozenset[str] = frozenset()
    """The manager's feature gates, besides those of the library that all are made with."""
    crds: str = "crd/bases"
    """Below `config`, as is `webhooks`."""
    webhooks: str = "webhook"
    later_config: str = ""
    """The folder of its manifests in later versions of its program, if it is another."""

    @property
    def user(self) -> str:
        """The manager's name in the management cluster."""
        return f"espalier:{self.name}"

    def known(self, gates: Mapping[str, bool]) -> dict[str, bool]:
        """Those feature gates that the manager has; it ends when it is given another."""
        return {gate: value for gate, value in gates.items() if gate in self.gates | LIBRARY_GATES}


MANAGERS = (
    Manager("cluster-api-core", "config", frozenset(GATES), later_config="core/config"),  # since 1.14
    Manager("cluster-api-kubeadm-bootstrap", "bootstrap/kubeadm/config", frozenset({"MachinePool"})),
    Manager(
        "cluster-api-kubeadm-control-plane",
        "controlplane/kubeadm/config",
        frozenset({"ClusterTopology", "InPlaceUpdates"}),
    ),
)


@dataclass(frozen=True)
class Ports:
    """Ports of one manager."""

    webhooks: int
    health: int

    @classmethod
    def free(cls) -> Ports:
        """Free ports."""
        with contextlib.ExitStack() as stack:
            probes = [stack.enter_context(socket.socket()) for _ in range(2)]
            for probe in probes:
                probe.bind((HOST, 0))
            return cls(*(probe.getsockname()[1] for probe in probes))


async def run_cluster_api(
    supervisor: Supervisor,
    assets: Path,
    folder: Path,
    control_plane: ControlPlane,
    client: Client,
    clock: Clock,
    *,
    gates: Mapping[str, bool] = GATES,
    providers: Mapping[Manager, Path] = MappingProxyType({}),
) -> None:
    """Install Cluster API and start its managers from the folder `assets`; returns when they and their webhooks serve.

    `client` is an administrator's; `folder` keeps keys and logs. May be called again on a management cluster that has
    it all: what is there is brought up to date. The supervisor stops the managers. Raises `ProgramFailed`.
    `providers` are further managers, each with the folder that its program and manifests are in.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = stored_authority(folder / "webhooks", "espalier-cluster-api", clock)
    installer = _Installer(folder, control_plane, client, clock, authority, gates)
    places = {**dict.fromkeys(MANAGERS, assets), **providers}
    documents = await asyncio.to_thread(
        lambda: [list(documents_of(place, manager)) for manager, place in places.items()]
    )
    arrangements = [
        Arrangement(manager, place, manifests, Ports.free())
        for (manager, place), manifests in zip(places.items(), documents, strict=True)
    ]
    # Each manager needs all CRDs.
    await asyncio.gather(*(installer.install(arrangement) for arrangement in arrangements))
    await asyncio.gather(*(installer.start(arrangement, supervisor) for arrangement in arrangements))


class Arrangement(NamedTuple):
    """A manager with its folder, manifests and ports."""

    manager: Manager
    assets: Path
    documents: list[Tree]
    ports: Ports


@dataclass(frozen=True)
class _Installer:
    """Installs and starts the managers on one management cluster, one by one."""

    folder: Path
    control_plane: ControlPlane
    client: Client
    clock: Clock
    authority: Authority
    gates: Mapping[str, bool]

    async def install(self, arrangement: Arrangement) -> None:
        """Apply the manifests of a manager. Returns when its CRDs are served."""
        manager, _, documents, ports = arrangement
        url = f"https://{HOST}:{ports.webhooks}"
        trees = [installable(tree, manager, url, self.authority.certificate) for tree in documents]
        trees.append(_binding(manager))
        await asyncio.gather(*(self._apply(tree) for tree in trees))
        definitions = {_name(tree) for tree in trees if tree["kind"] == CUSTOM_RESOURCE_DEFINITION.kind}
        await until_established(self.client, definitions)

    async def start(self, arrangement: Arrangement, supervisor: Supervisor) -> None:
        """Start an installed manager, with other ports when its ports are taken. Returns when it serves."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await supervisor.start(self._program(arrangement))
            except ProgramFailed as failure:
                if "address already in use" not in str(failure) or attempt == _ATTEMPTS:
                    raise
                arrangement = arrangement._replace(ports=Ports.free())
                await self.install(arrangement)
            else:
                break

    async def _apply(self, tree: Tree) -> None:
        await self.client.apply(_RESOURCES[tree["kind"]], tree, field_manager=FIELD_MANAGER)

    def _program(self, arrangement: Arrangement) -> Program:
        manager, assets, _, ports = arrangement
        folder = self.folder / manager.name
        folder.mkdir(mode=0o700, exist_ok=True)
        serving = self.authority.issue_server(manager.name, names=[HOST, "localhost"], now=self.clock.now())
        (folder / "tls.crt").write_bytes(serving.certificate)
        write_private(folder / "tls.key", serving.key)
        kubeconfig = self.control_plane.kubeconfig_of(manager.user, self.clock)
        write_private(folder / "kubeconfig", kubeconfig.to_bytes())
        gates = manager.known(self.gates)
        options: dict[str, object] = {
            "kubeconfig": folder / "kubeconfig",
            "webhook-port": ports.webhooks,
            "webhook-cert-dir": folder,
            "health-addr": f"{HOST}:{ports.health}",
            "diagnostics-address": "0",
            "leader-elect": "false",  # there is one of each
            # CRDs and programs have the same version: no object is stored in an older version.
            "skip-crd-migration-phases": "StorageVersionMigration,CleanupManagedFields",
        }
        if gates:
            options["feature-gates"] = ",".join(f"{gate}={str(value).lower()}" for gate, value in gates.items())
        arguments: list[str | Path] = [assets / manager.name]
        arguments += [f"--{option}={value}" for option, value in options.items()]
        return Program(manager.name, arguments, folder, _serves(f"http://{HOST}:{ports.health}/readyz"))


_RESOURCES: Mapping[str, Resource] = {
    resource.kind: resource
    for resource in (
        CUSTOM_RESOURCE_DEFINITION,
        CLUSTER_ROLE,
        CLUSTER_ROLE_BINDING,
        MUTATING_WEBHOOK_CONFIGURATION,
        VALIDATING_WEBHOOK_CONFIGURATION,
    )
}


def documents_of(assets: Path, manager: Manager) -> Iterator[Tree]:
    """The manifests of a manager: CRDs, ClusterRole and webhook configurations, as its provider ships them.

    The other objects in these folders belong to an installation by kustomize, and are left out by kind.
    """
    later = assets / manager.later_config
    folder = later if manager.later_config and later.is_dir() else assets / manager.config
    files = [*sorted((folder / manager.crds).glob("*.yaml")), folder / "rbac" / "role.yaml"]
    for file in [*files, folder / manager.webhooks / "manifests.yaml"]:
        for tree in trees(file.read_bytes(), str(file)):
            if tree and tree["kind"] in _RESOURCES:
                yield tree


def installable(document: Tree, manager: Manager, url: str, authority: bytes) -> Tree:
    """A manifest with webhook URLs at `url`, trusting `authority`.

    Returns a copy.
    """
    bundle = base64.b64encode(authority).decode()
    kind, metadata = document["kind"], document["metadata"]
    if kind == CUSTOM_RESOURCE_DEFINITION.kind:
        conversion = {
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": f"{url}/convert", "caBundle": bundle},
            },
        }
        labels = {**metadata.get("labels", {}), **CONTRACTS}
        return {
            **document,
            "metadata": {**metadata, "labels": labels},
            "spec": {**document["spec"], "conversion": conversion},
        }
    if kind == CLUSTER_ROLE.kind:
        return {**document, "metadata": {"name": manager.user}}
    webhooks = [
        {
            **webhook,
            "clientConfig": {"url": url + webhook["clientConfig"]["service"]["path"], "caBundle": bundle},
        }
        for webhook in document["webhooks"]
    ]
    return {**document, "metadata": {"name": f"{manager.name}-{metadata['name']}"}, "webhooks": webhooks}


def _binding(manager: Manager) -> Tree:
    group = CLUSTER_ROLE.group
    return {
        "apiVersion": CLUSTER_ROLE_BINDING.api_version,
        "kind": CLUSTER_ROLE_BINDING.kind,
        "metadata": {"name": manager.user},
        "roleRef": {"apiGroup": group, "kind": CLUSTER_ROLE.kind, "name": manager.user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": manager.user}],
    }


def _name(tree: Tree) -> str:
    return str(tree["metadata"]["name"])


def _serves(url: str) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        limit = aiohttp.ClientTimeout(total=5)
        try:
            async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as response:
                return response.status == HTTPStatus.OK
        except (aiohttp.ClientError, TimeoutError):
            return False

    return ask
