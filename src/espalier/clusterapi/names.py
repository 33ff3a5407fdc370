"""Labels, annotations and finalizers of Cluster API."""

from __future__ import annotations

import random

from espalier.api.capi.cluster import CLUSTER_NAME_LABEL, PAUSED_ANNOTATION
from espalier.api.meta import SUFFIX_LETTERS

CLUSTER = CLUSTER_NAME_LABEL
CONTROL_PLANE = "cluster.x-k8s.io/control-plane"
CONTROL_PLANE_NAME_LABEL = "cluster.x-k8s.io/control-plane-name"
DEPLOYMENT = "cluster.x-k8s.io/deployment-name"
SET_NAME_LABEL = "cluster.x-k8s.io/set-name"
TEMPLATE_HASH = "machine-template-hash"

PAUSED = PAUSED_ANNOTATION
CLONED_FROM_NAME = "cluster.x-k8s.io/cloned-from-name"
CLONED_FROM_KIND = "cluster.x-k8s.io/cloned-from-groupkind"
CERTIFICATES_EXPIRY = "machine.cluster.x-k8s.io/certificates-expiry"
REVISION = "machinedeployment.clusters.x-k8s.io/revision"

NODE_CLUSTER = CLUSTER_NAME_LABEL
NODE_CLUSTER_NAMESPACE = "cluster.x-k8s.io/cluster-namespace"
NODE_MACHINE = "cluster.x-k8s.io/machine"
NODE_OWNER_KIND = "cluster.x-k8s.io/owner-kind"
NODE_OWNER_NAME = "cluster.x-k8s.io/owner-name"

CLUSTER_FINALIZER = "cluster.cluster.x-k8s.io"
MACHINE_FINALIZER = "machine.cluster.x-k8s.io"
SET_FINALIZER = "cluster.x-k8s.io/machineset"
DEPLOYMENT_FINALIZER = "cluster.x-k8s.io/machinedeployment"
CONTROL_PLANE_FINALIZER = "kubeadm.controlplane.cluster.x-k8s.io"

CLUSTER_SECRET = "cluster.x-k8s.io/secret"  # noqa: S105 - the type of a Secret
"""Type of the Secrets that Cluster API makes."""


def suffixed(name: str, rng: random.Random) -> str:
    """A new name: `name-` and five letters, of those that spell no words; cut to 63 characters as labels ask for."""
    return f"{name[:57]}-{''.join(rng.choices(SUFFIX_LETTERS, k=5))}"
