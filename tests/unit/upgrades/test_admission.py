"""Upgrades that nobody would carry out are refused when they are written."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.meta import Tree
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.servers.admission import AdmissionRequest
from espalier.upgrades import admission
from tests.support.objects.observed_upgrades import made
from tests.support.objects.upgrade_objects import handlers

SPECS: dict[str, Tree] = {
    "NodeUpgrade": {"kubernetesVersion": "v1.36.3", "nodeType": "Worker"},
    "ControlPlaneUpgrade": {"kubernetesVersion": "v1.36.3", "controlPlane": {"name": "c"}, "controlPlaneSpecData": ""},
    "MachineDeploymentUpgrade": {
        "kubernetesVersion": "v1.36.3",
        "machineDeployment": {"name": "d"},
        "machineSpecData": "",
    },
}


@pytest.mark.parametrize("kind", admission.KINDS)
@pytest.mark.parametrize(
    ("namespace", "reference", "field"),
    [
        ("eksa-system", {"name": "m"}, ""),
        ("elsewhere", {"name": "m"}, "metadata.namespace"),
        ("eksa-system", {"name": "m", "kind": "Banana"}, "kind"),
    ],
)
def test_upgrade_is_in_the_system_namespace(kind: Any, namespace: str, reference: Tree, field: str) -> None:
    name = kind.resource.kind
    machines = {"machine": reference} if name == "NodeUpgrade" else {"machinesRequireUpgrade": [reference]}
    body = made(
        {
            "apiVersion": kind.resource.api_version,
            "kind": name,
            "metadata": {"name": "u", "namespace": namespace},
            "spec": SPECS[name] | machines,
        }
    )
    request = AdmissionRequest("CREATE", name, namespace, "u", ADMIN, body)
    answer = handlers()[admission.PATHS[kind]](request)
    assert answer.allowed is (field == "")
    assert [cause.field.endswith(field) for cause in answer.causes] == ([True] if field else [])
