"""The cloud controller manager of vSphere, in the workload cluster, which sets addresses and provider IDs of nodes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from espalier.api.core import CONFIG_MAP, DAEMON_SET, SECRET, SERVICE_ACCOUNT
from espalier.api.meta import Tree
from espalier.clusters.design.cluster_objects.linked_objects import datacenter
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.cloud_controller import ACCOUNT, CONTROL_PLANE, object_, rights, tolerations
from espalier.clusters.design.render.cni.workloads import NAMESPACE
from espalier.clusters.design.render.resource_set import Part, ResourceSet
from espalier.clusters.design.rendered import Manifest
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig
from espalier.providers.vsphere.references import cloud_controller
from espalier.providers.vsphere.render import image, thumbprint

NAME = "vsphere-cloud-controller-manager"
CONFIG = "vsphere-cloud-config"
CREDENTIALS = "cloud-provider-vsphere-credentials"

_READS_AUTHENTICATION = "servicecatalog.k8s.io:apiserver-authentication-reader"
"""Name of a RoleBinding, as in EKS Anywhere and in the manifests of the cloud controller itself."""

_LABELS = {"k8s-app": NAME}

SET = ResourceSet(
    "cpi",
    (
        Part(SECRET, ACCOUNT, "data", (SERVICE_ACCOUNT,)),
        Part(SECRET, CREDENTIALS, "data", (SECRET,)),
        Part(CONFIG_MAP, "cpi-manifests", "data"),
    ),
)
"""The ClusterResourceSet in which EKS Anywhere has the objects of the cloud controller."""


def workload(render_input: RenderInput) -> Iterator[Manifest]:
    """The cloud controller's RBAC objects, configuration, credentials, and pods."""
    yield from rights(_READS_AUTHENTICATION)
    yield Manifest(SECRET, _credentials(render_input))
    yield Manifest(CONFIG_MAP, _config(render_input))
    yield Manifest(DAEMON_SET, _daemon_set(render_input))


def _credentials(render_input: RenderInput) -> Tree:
    """The credentials of the read-only user, by the server's names that the cloud controller looks up."""
    login, (server, _) = cloud_controller(render_input), _server(render_input)
    data = {f"{server}.username": login.user, f"{server}.password": login.password}
    return object_("v1", "Secret", {"name": CREDENTIALS, "namespace": NAMESPACE}) | {
        "type": "Opaque",
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def _config(render_input: RenderInput) -> Tree:
    """The configuration in JSON, which is valid YAML."""
    spec, (server, port) = datacenter(VSphereDatacenterConfig, render_input).spec, _server(render_input)
    secret = {"secretName": CREDENTIALS, "secretNamespace": NAMESPACE}
    print_ = thumbprint(spec)
    connection = {
        "port": port,
        "insecureFlag": spec.insecure and not print_,
        **({"thumbprint": print_} if print_ else {}),
    }
    settings = {
        "global": secret | connection,
        "vcenter": {server: {"server": server, "datacenters": [spec.datacenter], **secret, **connection}},
    }
    content = json.dumps(settings, indent=2) + "\n"
    metadata = {"name": CONFIG, "namespace": NAMESPACE}
    return object_("v1", "ConfigMap", metadata) | {"data": {"vsphere.conf": content}}


def _server(render_input: RenderInput) -> tuple[str, int]:
    """Host and port of the vCenter."""
    host, colon, port = datacenter(VSphereDatacenterConfig, render_input).spec.server.rpartition(":")
    is_port = bool(colon) and port.isdecimal() and (host.endswith("]") or ":" not in host)
    return (host, int(port)) if is_port else (datacenter(VSphereDatacenterConfig, render_input).spec.server, 443)


def _daemon_set(render_input: RenderInput) -> Tree:
    config = {"name": CONFIG, "configMap": {"name": CONFIG}}
    container = {
        "name": NAME,
        "image": image(render_input, "manager"),
        "args": ["--v=2", "--cloud-provider=vsphere", "--cloud-config=/etc/cloud/vsphere.conf"],
        "resources": {"requests": {"cpu": "200m"}},
        "volumeMounts": [{"name": CONFIG, "mountPath": "/etc/cloud", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": ACCOUNT,
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {CONTROL_PLANE: ""},
        "tolerations": tolerations(render_input),
        "containers": [container],
        "volumes": [config],
    }
    return object_(
        DAEMON_SET.api_version, DAEMON_SET.kind, {"name": NAME, "namespace": NAMESPACE, "labels": _LABELS}
    ) | {
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": _LABELS}, "spec": pod},
        }
    }
