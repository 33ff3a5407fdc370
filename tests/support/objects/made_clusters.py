"""Clusters that were made: the objects of Cluster API as their controllers report them."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from espalier.api.capi.machine import MachineSet
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.design import cni
from espalier.clusters.observe.scope import ClusterAPIObjects, Scope
from espalier.clusters.plan import plan
from tests.support.objects.observed_clusters import ANNOTATIONS, applied, datacenter, example, scope


def objects(
    *,
    version: str = "1.35",
    control_plane: Tree | None = None,
    workers: Tree | None = None,
    front_end: FrontEnd = ANNOTATIONS,
    **spec: Any,
) -> list[Tree]:
    """The example at this version, ready; `control_plane` and `workers` replace fields of the reported status."""
    before = scope(*example(kubernetesVersion=version, **spec), front_end=front_end)
    assert before.render_input is not None
    wanted: list[KubeObject] = [
        *plan.control_plane(before.render_input, ClusterAPIObjects()),
        *plan.worker_groups(before.render_input, ClusterAPIObjects()),
    ]
    stored = [applied(msgspec.to_builtins(object_)) for object_ in wanted]
    for tree in stored:
        full = tree["spec"].get("version") or before.render_input.of_control_plane.version
        match tree["kind"]:
            case "Cluster":
                initialization = {"infrastructureProvisioned": True, "controlPlaneInitialized": True}
                tree["status"] = {"initialization": initialization, "observedGeneration": 1}
                mark = cni.content_hash(cni.objects(before.render_input))
                tree["metadata"]["annotations"] = {metadata_keys.CNI_ANNOTATION: mark}
            case "KubeadmControlPlane":
                conditions = [{"type": "Available", "status": "True", "reason": "Available"}]
                initialization = {"controlPlaneInitialized": True}
                tree["status"] = counts(tree["spec"]["replicas"]) | {"version": full, "conditions": conditions}
                tree["status"]["initialization"] = initialization
                tree["status"] |= control_plane or {}
            case "DockerCluster":
                tree["status"] = {"initialization": {"provisioned": True}}
            case "MachineDeployment":
                tree["status"] = counts(tree["spec"]["replicas"]) | (workers or {})
    sets = [machine_set(tree) for tree in stored if tree["kind"] == "MachineDeployment"]
    return [*stored, *sets, kubeconfig()]


def machine_set(deployment: Tree) -> Tree:
    """The set of machines of a group's present template."""
    name = deployment["metadata"]["name"]
    labels = {"cluster.x-k8s.io/cluster-name": "garden", "cluster.x-k8s.io/deployment-name": name}
    metadata = {"name": f"{name}-abcde", "namespace": "eksa-system", "labels": labels, "uid": f"set-{name}"}
    replicas = deployment["status"].get("replicas", 0)
    return {
        "apiVersion": MachineSet.resource.api_version,
        "kind": MachineSet.resource.kind,
        "metadata": metadata | {"resourceVersion": "5"},
        "spec": {
            "clusterName": "garden",
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": deployment["spec"]["template"],
        },
        "status": {"replicas": replicas},
    }


def counts(number: int) -> Tree:
    """A status in which all machines are as they should be."""
    kinds = ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas")
    return dict.fromkeys(kinds, number) | {"observedGeneration": 1}


def kubeconfig() -> Tree:
    """Cluster API's Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "garden-kubeconfig",
            "namespace": "eksa-system",
            "labels": {"cluster.x-k8s.io/cluster-name": "garden"},
            "resourceVersion": "5",
            "uid": "kubeconfig",
        },
        "data": {"value": base64.b64encode(b"apiVersion: v1\nkind: Config\n").decode()},
    }


def settled(**status: Any) -> Tree:
    """The status of a Cluster that was reconciled to its end."""
    return {"observedGeneration": 1, "childrenObservedGeneration": 1, "specValid": True, "phase": "Running"} | status


def made(
    *,
    status: Tree | None = None,
    annotations: Tree | None = None,
    objects: list[Tree],
    front_end: FrontEnd = ANNOTATIONS,
    **spec: Any,
) -> Scope:
    """The scope of a reconcile of the example, when these objects were made for it."""
    cluster = example(**spec)[0]
    cluster["metadata"]["annotations"] = annotations or {}
    cluster["status"] = status or {}
    return scope(cluster, datacenter(), *objects, front_end=front_end)
