"""Objects as EKS Anywhere leaves them, made of ours by what differs (docs/eks-anywhere.md): labels, machines, status.

They are made in the store of a settled management cluster, so that machines and their owners still agree.
"""

from __future__ import annotations

import json
from typing import Any

from espalier.api.core import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    MUTATING_WEBHOOK_CONFIGURATION,
    SECRET,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL, GROUP, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.storage.store import MemoryStore
from espalier.clusters.design.eks_anywhere import CONTROLLER
from espalier.kube.client import Client
from espalier.kube.objects import Object, encode_json

CERTIFICATE = "eksa-system/eksa-serving-cert"
LABELS = frozenset({CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL})
LABELLED = frozenset({("cluster.x-k8s.io", "Cluster"), ("cluster.x-k8s.io", "MachineDeployment")})
"""Group and kind of the objects on which EKS Anywhere writes these labels, too."""
SOCKET = "unix:///var/run/containerd/containerd.sock"


def hand_over(store: MemoryStore) -> None:
    """Make all clusters of a store EKS Anywhere's: no manager of ours has ever been there."""
    children = _generations(store)
    for name, table in store.tables():
        for key, object_ in list(table.objects.items()):
            tree = _as_theirs(json.loads(bytes(object_.raw)))
            if name == Cluster.resource.group_resource and children[key]:
                tree = cluster(tree, children[key])
            if tree != object_.tree:
                put(store, name, key, tree)
    for resource in (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION):
        _drop(store, resource)
    _drop(store, SECRET, lambda name: name.startswith("espalier"))


def put(store: MemoryStore, name: str, key: Any, tree: Tree) -> None:
    """Store an object as a write would."""
    tree["metadata"]["resourceVersion"] = str(store.revision + 1)
    store.put(name, key, Object(encode_json(tree)))


def _drop(store: MemoryStore, resource: Resource, which: Any = lambda _name: True) -> None:
    for key in list(store.table(resource.group_resource).objects):
        if which(key.name):
            gone = store.table(resource.group_resource).objects[key]
            store.put(resource.group_resource, key, gone, deleted=True)


def _generations(store: MemoryStore) -> dict[Any, int]:
    """The sums of the generations of what Clusters name."""
    by_owner: dict[str, int] = {}
    for _, table in store.tables():
        for object_ in table.objects.values():
            for owner in object_.metadata.owner_references:
                if owner.api_version.startswith(GROUP):
                    by_owner[owner.uid] = by_owner.get(owner.uid, 0) + object_.metadata.generation
    clusters = store.table(Cluster.resource.group_resource).objects
    return {key: by_owner.get(object_.metadata.uid, 0) for key, object_ in clusters.items()}


def _as_theirs(tree: Tree) -> Tree:
    group = str(tree.get("apiVersion", "")).partition("/")[0]
    is_made = group.endswith("cluster.x-k8s.io") or tree.get("kind") in ("Secret", "ConfigMap")
    if not is_made:
        return tree
    labels = LABELS if (group, tree.get("kind")) in LABELLED else frozenset()
    text = json.dumps(tree).replace(SOCKET, SOCKET.removeprefix("unix://"))
    tree = json.loads(text)
    metadata = tree["metadata"]
    for kind in ("labels", "annotations"):
        if any(map(_is_ours, metadata.get(kind, {}))):
            metadata[kind] = {
                name: text for name, text in metadata[kind].items() if name in labels or not _is_ours(name)
            }
    for entry in metadata.get("managedFields", ()):
        fields = entry.get("fieldsV1", {}).get("f:metadata", {})
        for kind in ("f:labels", "f:annotations"):
            named = {
                name: below
                for name, below in fields.get(kind, {}).items()
                if name[2:] in labels or not _is_ours(name[2:])
            }
            if kind in fields:
                fields[kind] = named
            if kind in fields and not named.keys() - {"."}:
                del fields[kind]
        if not fields and "f:metadata" in entry.get("fieldsV1", {}):
            del entry["fieldsV1"]["f:metadata"]
    if tree["kind"] == "MachineHealthCheck":
        check = tree["spec"].get("remediation", {}).get("triggerIf", {})
        if check.get("unhealthyLessThanOrEqualTo") == "50%":
            check["unhealthyLessThanOrEqualTo"] = "40%"
    return tree


def _is_ours(name: str) -> bool:
    """True for labels and annotations of our domain, which EKS Anywhere writes on few objects, or on none."""
    is_ours = name.startswith(f"{GROUP}/") and "credentials" not in name
    return is_ours or name in LABELS


def cluster(tree: Tree, children: int) -> Tree:
    """A Cluster that EKS Anywhere has reconciled."""
    metadata = tree["metadata"]
    metadata.pop("annotations", None)
    conditions = [
        {"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name in ("ControlPlaneInitialized", "ControlPlaneReady", "DefaultCNIConfigured", "Ready", "WorkersReady")
    ]
    generation = metadata["generation"]
    status = {
        "conditions": conditions,
        "observedGeneration": generation,
        "reconciledGeneration": generation,
        "childrenReconciledGeneration": children,
    }
    return {**tree, "status": status}


def controller(replicas: int = 1) -> Tree:
    """The Deployment of EKS Anywhere's controller."""
    labels = {"control-plane": "eksa-controller-manager"}
    container = {"name": "manager", "image": "registry.example.com/eks-anywhere-cluster-controller:v0.26.1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": CONTROLLER.namespace, "name": CONTROLLER.name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def make_site(store: MemoryStore) -> None:
    """Let EKS Anywhere run there: its controller, its webhooks, its namespaced EKSAReleases."""
    crds, releases = CUSTOM_RESOURCE_DEFINITION.group_resource, EKSARelease.resource.group_resource
    definition_key = next(key for key in store.table(crds).objects if key.name == releases)
    stored = json.loads(bytes(store.table(crds).objects[definition_key].raw))
    for key, object_ in list(store.table(releases).objects.items()):
        tree = release(json.loads(bytes(object_.raw)))
        store.put(releases, key, object_, deleted=True)
        put(store, releases, Key(SYSTEM_NAMESPACE, key.name), tree)
    put(store, crds, definition_key, definition(stored))


def definition(tree: Tree) -> Tree:
    """Our definition of EKSARelease as EKS Anywhere has it."""
    tree["spec"]["scope"] = "Namespaced"
    (version,) = tree["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    of_spec = schema["properties"]["spec"]
    of_spec["properties"]["releaseDate"] = of_spec["properties"].pop("date")
    of_spec["required"] = ["releaseDate" if name == "date" else name for name in of_spec["required"]]
    version["additionalPrinterColumns"] = []
    for part in (schema, of_spec):
        part.pop("x-kubernetes-validations", None)
    return tree


def definition_of_clusters(tree: Tree) -> Tree:
    """Our definition of Cluster as EKS Anywhere has it: its conditions have no reason when they are True."""
    (version,) = tree["spec"]["versions"]
    conditions = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"]
    conditions["items"]["required"] = ["type", "status"]
    return tree


async def install(client: Client) -> None:
    """The objects of EKS Anywhere that are no clusters."""
    await client.create(DEPLOYMENT, controller())
    for tree in webhooks():
        await client.create(_CONFIGURATIONS[tree["kind"]], tree)


_CONFIGURATIONS = {item.kind: item for item in (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION)}


def release(tree: Tree) -> Tree:
    """One of our EKSAReleases as EKS Anywhere has it."""
    spec = dict(tree["spec"])
    spec["releaseDate"] = spec.pop("date")
    return {**tree, "metadata": {**tree["metadata"], "namespace": SYSTEM_NAMESPACE}, "spec": spec}


def webhooks() -> list[Tree]:
    """The configurations of its webhooks."""
    rule = {
        "apiGroups": [GROUP],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["clusters"],
    }
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {
                "name": name,
                "annotations": {"cert-manager.io/inject-ca-from": "eksa-system/eksa-serving-cert"},
            },
            "webhooks": [
                {
                    "name": f"{word}.cluster.anywhere.amazonaws.com",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Fail",
                    "rules": [rule],
                    "clientConfig": {"service": {"name": "eksa-webhook-service", "namespace": SYSTEM_NAMESPACE}},
                }
            ],
        }
        for kind, name, word in (
            ("MutatingWebhookConfiguration", "eksa-mutating-webhook-configuration", "mutation"),
            ("ValidatingWebhookConfiguration", "eksa-validating-webhook-configuration", "validation"),
        )
    ]
