"""Which changes of Cluster API objects make a difference to a Cluster."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusters.observe.predicates import relevant
from espalier.kube.objects import Object
from espalier.providers.docker.cluster_api import DockerCluster


@pytest.mark.parametrize(
    ("resource", "initialization"),
    [
        (DockerCluster.resource, {"provisioned": True}),
        (KubeadmControlPlane.resource, {"controlPlaneInitialized": True}),
    ],
    ids=lambda value: value.kind if isinstance(value, Resource) else "",
)
def test_recreated_object_triggers_once_provisioned(resource: Resource, initialization: Tree) -> None:
    def reported(status: Tree) -> Object:
        metadata = {"name": "garden", "namespace": "eksa-system", "uid": "1", "generation": 1}
        reference = {"apiGroup": "a", "kind": "DockerMachineTemplate", "name": "garden"}
        spec = {"version": "v1.36.3", "machineTemplate": {"spec": {"infrastructureRef": reference}}}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return Object(msgspec.json.encode(body | {"spec": spec, "status": status}))

    changed = relevant(resource)
    assert changed(reported({}), reported({"initialization": initialization}))
    assert not changed(reported({}), reported({"phase": "Running"}))
