"""Components: the parts of a program, declared as data. Managers and install manifests are built from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from espalier.api.kinds import KubeObject
from espalier.kube.rbac import NO_RIGHTS, Right, Rights

if TYPE_CHECKING:  # declarations are read by commands that never run a manager, and start faster without its servers
    from espalier.kube.client import Client
    from espalier.runtime.caches.cache import Caches
    from espalier.runtime.manager import Manager
    from espalier.runtime.servers.admission import AdmissionWebhook
    from espalier.runtime.servers.webhooks import Webhooks


@dataclass(frozen=True)
class Host:
    """The environment of a component: the manager that runs it, and its client and caches of the management cluster."""

    manager: Manager
    client: Client
    caches: Caches
    webhooks: Webhooks | None
    """None if no webhooks are served."""


@dataclass(frozen=True)
class Component:
    """One part of a program. Components interact only through API objects, so each can be omitted or run elsewhere."""

    name: str
    build: Callable[[Host], None] = lambda _host: None
    """Adds the component's controllers to the manager, and its handlers to the webhooks."""
    kinds: tuple[type[KubeObject], ...] = ()
    """The kinds that the component defines: their CRDs are installed with it."""
    rights: Rights = NO_RIGHTS
    shared: Rights = NO_RIGHTS
    """Rights that the component needs, but that are granted through another component of the same account."""
    webhooks: tuple[AdmissionWebhook, ...] = ()
    in_workload_clusters: tuple[Right, ...] = ()
    """Rights that the component needs in workload clusters."""


def assemble(
    manager: Manager,
    components: Iterable[Component],
    *,
    webhooks: Webhooks | None = None,
    client: Client | None = None,
    caches: Caches | None = None,
) -> Manager:
    """Add these components to `manager`, and their handlers to `webhooks`.

    With a `client` and `caches`, they use these for the management cluster, under another account than the manager's.
    """
    host = Host(manager, client or manager.client, caches or manager.caches, webhooks)
    for component in components:
        if manager.workload_account is not None:
            manager.workload_account.rights.extend(component.in_workload_clusters)
        component.build(host)
        if webhooks is not None and (
            unserved := {webhook.path for webhook in component.webhooks} - set(webhooks.paths)
        ):
            raise ValueError(f"component {component.name} serves no webhook at {', '.join(sorted(unserved))}")
    if webhooks is not None:
        manager.add(webhooks)
    if caches is not None:
        manager.add(caches)
    return manager


def kinds(components: Iterable[Component]) -> tuple[type[KubeObject], ...]:
    """All kinds that these components define."""
    return tuple(kind for component in components for kind in component.kinds)
