"""The machine controller manager as a component."""

from __future__ import annotations

from espalier.api.cloud import CallCloud
from espalier.api.core import NAMESPACE, SECRET
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.machines import MachineDeployment, MachineSet
from espalier.kube.client import Client
from espalier.kube.rbac import FOLLOW, Right, Rights
from espalier.runtime.component import Component, Host
from espalier.shoots.extension import leases_of
from espalier.shoots.local_provider.machine_objects import KINDS
from espalier.shoots.local_provider.worker import MachineViews
from espalier.shoots.machine_controller.bootstrap_tokens import BootstrapTokens
from espalier.shoots.machine_controller.controller import NAME, MachineController


def component(
    call: CallCloud, timing: Timing, tokens: BootstrapTokens | None = None, shoot: Client | None = None
) -> Component:
    """The machine controller manager: of one shoot, if its manager watches one namespace; else of all of a seed.

    `tokens` creates those with which machines of this shoot join; None if machines need none. In `shoot`, the nodes of
    deleted machines are deleted.
    """

    def build(host: Host) -> None:
        leases = leases_of(host, timing)
        machine_controller = MachineController(host, call, MachineViews(host.caches), leases, timing, tokens, shoot)
        host.manager.add(machine_controller.controller)

    return Component(NAME, build, rights=RIGHTS)


RIGHTS = Rights(
    watched=(
        Right(KINDS, ("get", "create", "patch", "delete", *FOLLOW)),
        # For what they own and wait for, with admission plugin OwnerReferencesPermissionEnforcement.
        Right((MachineDeployment.resource, MachineSet.resource), ("update",), "finalizers"),
        Right((Worker.resource,), FOLLOW),
        Right((SECRET,), ("get",)),
    ),
    cluster_scoped=(Right((Cluster.resource,), FOLLOW), Right((NAMESPACE,), ("get",))),
)
"""Rights in the seed."""
