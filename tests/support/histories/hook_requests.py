"""Questions as Cluster API asks them: of machines and MachineSets that a Cluster's spec makes, before and after."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec

from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusterapi.changes.machine_change import control_plane_bootstrap
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.clusters.plan import plan
from espalier.providers.docker.cluster_api import DockerMachineTemplate
from tests.support.objects.observed_clusters import example, scope

LABELS = {"cluster.x-k8s.io/cluster-name": "garden"}
OF_CONTROL_PLANE = {
    **LABELS,
    "cluster.x-k8s.io/control-plane": "",
    "cluster.x-k8s.io/control-plane-name": "garden",
}
OF_GROUP = {**LABELS, "cluster.x-k8s.io/deployment-name": "garden-md-0"}


def machine_objects(**spec: Any) -> Tree:
    """A machine of the control plane of the example cluster with these fields, as the provider would have it.

    It is brought to the form of a machine that joined, without what Cluster API changes by itself.
    """
    wanted = _rendered(plan.control_plane, **spec)
    control_plane = wanted[KubeadmControlPlane]["spec"]
    version = control_plane["version"]
    config = control_plane_bootstrap(control_plane["kubeadmConfigSpec"], version)
    config = {name: value for name, value in config.items() if name != "initConfiguration"}
    cluster = {name: value for name, value in config["clusterConfiguration"].items() if name != "dns"}
    return {
        "machine": _object(
            "cluster.x-k8s.io/v1beta2",
            "Machine",
            "garden-abcde",
            OF_CONTROL_PLANE,
            {
                "clusterName": "garden",
                "version": version,
                "providerID": "docker:////garden-abcde",
                "bootstrap": {"configRef": _reference("bootstrap.cluster.x-k8s.io", "KubeadmConfig", "garden-abcde")},
                "infrastructureRef": _reference("infrastructure.cluster.x-k8s.io", "DockerMachine", "garden-abcde"),
            },
        ),
        "infrastructureMachine": _object(
            "infrastructure.cluster.x-k8s.io/v1beta2",
            "DockerMachine",
            "garden-abcde",
            OF_CONTROL_PLANE,
            {"providerID": "docker:////garden-abcde", **wanted[DockerMachineTemplate]["spec"]["template"]["spec"]},
        ),
        "bootstrapConfig": _object(
            "bootstrap.cluster.x-k8s.io/v1beta2",
            "KubeadmConfig",
            "garden-abcde",
            OF_CONTROL_PLANE,
            {**config, "clusterConfiguration": cluster},
        ),
    }


def set_objects(name: str, **spec: Any) -> Tree:
    """A MachineSet of the worker node group of the example cluster with these fields, and its templates."""
    wanted = _rendered(plan.worker_groups, **spec)
    template = wanted[MachineDeployment]["spec"]["template"]
    return {
        "machineSet": _object(
            "cluster.x-k8s.io/v1beta2",
            "MachineSet",
            name,
            OF_GROUP,
            {"clusterName": "garden", "replicas": 2, "selector": {}, "template": template},
        ),
        "infrastructureMachineTemplate": wanted[DockerMachineTemplate],
        "bootstrapConfigTemplate": wanted[KubeadmConfigTemplate],
    }


def patched(objects: Mapping[str, Tree], answer: Mapping[str, Any]) -> dict[str, Tree]:
    """The objects with the patches of an answer."""
    results = {}
    for name, object_ in objects.items():
        patch = answer.get(f"{name}Patch")
        operations = msgspec.json.decode(base64.b64decode(patch["patch"])) if patch else []
        results[name] = jsonpatch.apply_patch(object_, operations)
    return results


def compared(objects: Mapping[str, Tree]) -> dict[str, Any]:
    """The objects after the patches, as Cluster API compares them."""
    results = {}
    for name, object_ in objects.items():
        spec = object_["spec"] if name in ("machine", "infrastructureMachine", "bootstrapConfig") else None
        spec = object_["spec"]["template"]["spec"] if spec is None else spec
        left_out = ("clusterName", "bootstrap", "infrastructureRef") if name in ("machine", "machineSet") else ()
        results[name] = {field: value for field, value in spec.items() if field not in (*left_out, "providerID")}
    return results


def _rendered(make: Any, **spec: Any) -> dict[type[KubeObject], Tree]:
    render_input = scope(*example(**spec)).render_input
    assert render_input is not None
    return {type(item): msgspec.to_builtins(item) for item in make(render_input, ClusterAPIObjects())}


def _object(api_version: str, kind: str, name: str, labels: Tree, spec: Tree) -> Tree:
    metadata = {"name": name, "namespace": "eksa-system", "labels": dict(labels)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _reference(group: str, kind: str, name: str) -> Tree:
    return {"apiGroup": group, "kind": kind, "name": name}
