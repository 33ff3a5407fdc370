"""Valid specs of the kinds of upgrades in place, and the webhooks that judge them."""

from __future__ import annotations

import base64
from typing import Any

from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.runtime.servers.admission import Handler
from espalier.upgrades import admission

DATA = base64.b64encode(b"{}").decode()
MACHINE = {"name": "garden-x"}
SPECS: dict[type[KubeObject], Tree] = {
    NodeUpgrade: {
        "machine": MACHINE,
        "kubernetesVersion": "v1.36.3-eks-1-36-1",
        "etcdVersion": "v3.6.8-eks-1-36-1",
        "nodeType": "ControlPlane",
    },
    ControlPlaneUpgrade: {
        "controlPlane": {"name": "garden"},
        "machinesRequireUpgrade": [MACHINE],
        "kubernetesVersion": "v1.36.3",
        "etcdVersion": "3.6.8-0",
        "controlPlaneSpecData": DATA,
    },
    MachineDeploymentUpgrade: {
        "machineDeployment": {"name": "garden-md-0"},
        "machinesRequireUpgrade": [MACHINE],
        "kubernetesVersion": "v1.36.3",
        "machineSpecData": DATA,
    },
}


def handlers() -> dict[str, Handler]:
    """Path -> what answers there."""
    results: dict[str, Handler] = {}

    class Webhooks:
        def handle(self, path: str, handler: Handler) -> None:
            results[path] = handler

    webhooks: Any = Webhooks()
    admission.serve(webhooks)
    return results
