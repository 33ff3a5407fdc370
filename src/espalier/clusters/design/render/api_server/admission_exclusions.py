"""Requests of Kubernetes' own components that admission plugins of EKS Distro's kube-apiserver exclude.

A failing webhook then does not prevent the repair of the cluster (`skipAdmissionForSystemResources`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from espalier.api.capi.kubeadm import EnvVar, File, HostPathMount
from espalier.api.core import KUBE_SYSTEM
from espalier.api.eksa.parts.control_plane import ControlPlaneConfiguration

FILE = "/etc/kubernetes/admission-plugin-exclusion-rules.json"
VARIABLE = "EKS_PATCH_EXCLUSION_RULES_FILE"

_MANAGER = "system:kube-controller-manager"
_API_SERVER = "system:apiserver"
_CONTROLLERS = f"system:serviceaccount:{KUBE_SYSTEM}:"


def _rule(
    group: str, kind: str, namespace: str = "", *, version: str = "v1", names: Sequence[str] = (), user: str = ""
) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "apiGroup": group,
        "apiVersion": version,
        "kind": kind,
        "scope": "Namespaced" if namespace else "Cluster",
        "namespace": namespace,
        "name": list(names),
        "username": user,
    }
    return {name: value for name, value in tree.items() if value or name == "apiGroup"}


_RBAC, _FLOWS, _LEASES = "rbac.authorization.k8s.io", "flowcontrol.apiserver.k8s.io", "coordination.k8s.io"
_COMPONENTS = ("kube-controller-manager", "kube-scheduler", "cilium-operator-resource-lock")
_CERTIFICATES = ("cert-manager-controller", "cert-manager-cainjector-leader-election")

RULES = (
    _rule("", "ServiceAccount", KUBE_SYSTEM, user=_MANAGER),
    _rule("authentication.k8s.io", "TokenRequest", KUBE_SYSTEM, user=_MANAGER),
    _rule(_LEASES, "Lease", KUBE_SYSTEM, names=(*_COMPONENTS, *_CERTIFICATES)),
    _rule(_LEASES, "Lease", "kube-node-lease"),
    *(_rule(_FLOWS, kind, user=_API_SERVER) for kind in ("FlowSchema", "PriorityLevelConfiguration")),
    *(_rule(_RBAC, kind, user=_API_SERVER) for kind in ("ClusterRole", "ClusterRoleBinding")),
    *(
        _rule(_RBAC, kind, namespace, user=_API_SERVER)
        for kind in ("Role", "RoleBinding")
        for namespace in (KUBE_SYSTEM, "kube-public")
    ),
    _rule("apiregistration.k8s.io", "APIService", user=_API_SERVER),
    *(
        _rule("", "Pod", KUBE_SYSTEM, user=f"{_CONTROLLERS}{name}")
        for name in ("daemon-set-controller", "replicaset-controller")
    ),
    _rule("apps", "DaemonSet", KUBE_SYSTEM, names=("cilium", "kube-proxy")),
    _rule("apps", "Deployment", KUBE_SYSTEM, names=("cilium-operator", "coredns")),
)


class Exclusions(NamedTuple):
    """The files, flags and variables of a control plane that excludes requests."""

    files: list[File]
    variables: list[EnvVar]
    volumes: list[HostPathMount]


def of(control_plane: ControlPlaneConfiguration) -> Exclusions:
    """The exclusions; empty unless requested."""
    if not control_plane.skip_admission_for_system_resources:
        return Exclusions([], [], [])
    content = json.dumps(RULES, indent=2) + "\n"
    mount = HostPathMount(
        name="admission-plugin-exclusion-rules", host_path=FILE, mount_path=FILE, path_type="File", read_only=True
    )
    return Exclusions(
        [File(path=FILE, owner="root:root", permissions="0640", content=content)],
        [EnvVar(name=VARIABLE, value=FILE)],
        [mount],
    )
