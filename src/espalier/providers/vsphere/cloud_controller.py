"""The cloud controller manager of vSphere, in the workload cluster: it tells nodes their addresses and their IDs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from espalier.api.core import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    DAEMON_SET,
    ROLE_BINDING,
    SECRET,
    SERVICE_ACCOUNT,
)
from espalier.api.meta import Tree
from espalier.clusters.render.cni.workloads import NAMESPACE, rule
from espalier.clusters.render_input import Design
from espalier.clusters.rendered import Manifest
from espalier.providers.vsphere.linked import cloud_controller, datacenter
from espalier.providers.vsphere.render import image, thumbprint

ACCOUNT = "cloud-controller-manager"
NAME = "vsphere-cloud-controller-manager"
ROLE = "system:cloud-controller-manager"
CONFIG = "vsphere-cloud-config"
CREDENTIALS = "cloud-provider-vsphere-credentials"

_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_LABELS = {"k8s-app": NAME}

_RULES = (
    rule([""], ["events"], ["create", "patch", "update"]),
    rule([""], ["nodes"], ["get", "list", "watch", "update", "patch", "delete"]),
    rule([""], ["nodes/status"], ["patch", "update"]),
    rule([""], ["services"], ["list", "watch", "patch", "update"]),
    rule([""], ["services/status"], ["patch", "update"]),
    rule([""], ["serviceaccounts"], ["create", "get", "list", "watch", "update"]),
    rule([""], ["serviceaccounts/token"], ["create"]),
    rule([""], ["endpoints"], ["create", "get", "list", "watch", "update"]),
    rule([""], ["secrets", "configmaps"], ["get", "list", "watch"]),
    rule(["coordination.k8s.io"], ["leases"], ["create", "get", "list", "watch", "update"]),
)


def workload(design: Design) -> Iterator[Manifest]:
    """Its rights, its configuration, its credentials, and its pods."""
    in_namespace = {"namespace": NAMESPACE}
    subjects = [{"kind": "ServiceAccount", "name": ACCOUNT, **in_namespace}]
    yield Manifest(SERVICE_ACCOUNT, _object("v1", "ServiceAccount", {"name": ACCOUNT, **in_namespace}))
    yield Manifest(
        CLUSTER_ROLE, _object(CLUSTER_ROLE.api_version, "ClusterRole", {"name": ROLE}) | {"rules": list(_RULES)}
    )
    yield Manifest(
        CLUSTER_ROLE_BINDING,
        _object(CLUSTER_ROLE_BINDING.api_version, "ClusterRoleBinding", {"name": ROLE})
        | {"roleRef": _role(CLUSTER_ROLE.kind, ROLE), "subjects": subjects},
    )
    yield Manifest(
        ROLE_BINDING,
        _object(ROLE_BINDING.api_version, "RoleBinding", {"name": f"{ACCOUNT}-authentication", **in_namespace})
        | {"roleRef": _role("Role", "extension-apiserver-authentication-reader"), "subjects": subjects},
    )
    yield Manifest(SECRET, _credentials(design))
    yield Manifest(CONFIG_MAP, _config(design))
    yield Manifest(DAEMON_SET, _daemon_set(design))


def _object(api_version: str, kind: str, metadata: Tree) -> Tree:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _role(kind: str, name: str) -> Tree:
    return {"apiGroup": CLUSTER_ROLE.group, "kind": kind, "name": name}


def _credentials(design: Design) -> Tree:
    """Of a user that reads, under the names of the server that the cloud controller looks for."""
    login, (server, _) = cloud_controller(design), _server(design)
    data = {f"{server}.username": login.user, f"{server}.password": login.password}
    return _object("v1", "Secret", {"name": CREDENTIALS, "namespace": NAMESPACE}) | {
        "type": "Opaque",
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def _config(design: Design) -> Tree:
    """JSON is YAML, which the cloud controller reads."""
    spec, (server, port) = datacenter(design).spec, _server(design)
    secret = {"secretName": CREDENTIALS, "secretNamespace": NAMESPACE}
    print_ = thumbprint(spec)
    connection = {"port": port, "insecureFlag": spec.insecure, **({"thumbprint": print_} if print_ else {})}
    settings = {
        "global": secret | connection,
        "vcenter": {server: {"server": server, "datacenters": [spec.datacenter], **secret, **connection}},
    }
    content = json.dumps(settings, indent=2) + "\n"
    metadata = {"name": CONFIG, "namespace": NAMESPACE}
    return _object("v1", "ConfigMap", metadata) | {"data": {"vsphere.conf": content}}


def _server(design: Design) -> tuple[str, int]:
    """Host and port of the vCenter."""
    host, colon, port = datacenter(design).spec.server.rpartition(":")
    is_port = bool(colon) and port.isdecimal() and (host.endswith("]") or ":" not in host)
    return (host, int(port)) if is_port else (datacenter(design).spec.server, 443)


def _daemon_set(design: Design) -> Tree:
    tolerations = [
        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
        {"key": _CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
        *(_toleration(taint.key, taint.value, taint.effect) for taint in design.control_plane.taints),
    ]
    config = {"name": CONFIG, "configMap": {"name": CONFIG}}
    container = {
        "name": NAME,
        "image": image(design, "manager"),
        "args": ["--v=2", "--cloud-provider=vsphere", "--cloud-config=/etc/cloud/vsphere.conf"],
        "resources": {"requests": {"cpu": "200m"}},
        "volumeMounts": [{"name": CONFIG, "mountPath": "/etc/cloud", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": ACCOUNT,
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {_CONTROL_PLANE: ""},
        "tolerations": tolerations,
        "containers": [container],
        "volumes": [config],
    }
    return _object(
        DAEMON_SET.api_version, DAEMON_SET.kind, {"name": NAME, "namespace": NAMESPACE, "labels": _LABELS}
    ) | {
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": _LABELS}, "spec": pod},
        }
    }


def _toleration(key: str, value: str, effect: str) -> Tree:
    found: Tree = {"key": key, "operator": "Exists", "effect": effect}
    return found | ({"operator": "Equal", "value": value} if value else {})
