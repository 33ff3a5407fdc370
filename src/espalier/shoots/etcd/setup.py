"""Etcds as a component: its kind and rights, and how it is built."""

from __future__ import annotations

from espalier.api.core import CORE_EVENT, PERSISTENT_VOLUME_CLAIM
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.etcd import Etcd
from espalier.kube.rbac import APPLY, FOLLOW, Right, Rights
from espalier.runtime.component import Component, Host
from espalier.runtime.controllers.controller import RESYNC
from espalier.shoots.etcd import controller
from espalier.shoots.etcd.observe import OWNED

RIGHTS = Rights(
    watched=(
        Right((Etcd.resource,), (*FOLLOW, "patch")),
        Right((Etcd.resource,), ("patch",), "status"),
        # For what an Etcd owns and waits for, with admission plugin OwnerReferencesPermissionEnforcement.
        Right((Etcd.resource,), ("update",), "finalizers"),
        Right(OWNED, ("get", *FOLLOW, "create", "patch", "delete")),
        Right((PERSISTENT_VOLUME_CLAIM,), (*FOLLOW, "delete")),
        Right((CORE_EVENT,), APPLY),
    ),
)
"""Rights in a seed. Pods and claims are created by the StatefulSet's controller."""


def component(*, timing: Timing | None = None, workers: int = 10, resync: float = RESYNC) -> Component:
    """The component of a seed that runs Etcds. Agents get this timing, or the default of their image."""

    def build(host: Host) -> None:
        host.manager.add(controller.controller(host, timing=timing, workers=workers, resync=resync))

    return Component("etcd", build, (Etcd,), RIGHTS)
