"""The cloud controller manager of Nutanix, in the workload cluster, which sets addresses and provider IDs of nodes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from espalier.api.core import CONFIG_MAP, DEPLOYMENT, SECRET
from espalier.api.meta import Tree
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.cloud_controller import ACCOUNT, CONTROL_PLANE, object_, rights, tolerations
from espalier.clusters.design.render.cni.workloads import NAMESPACE, from_field
from espalier.clusters.design.render.resource_set import Part, ResourceSet
from espalier.clusters.design.rendered import Manifest
from espalier.providers.nutanix import node_addresses, references
from espalier.providers.nutanix.render import AUTHORITIES, image

NAME = "nutanix-cloud-controller-manager"
CONFIG, FILE = "nutanix-config", "nutanix_config.json"
CREDENTIALS = "nutanix-creds"
TRUST_BUNDLE = "user-ca-bundle"

_FOLDER = "/etc/cloud"
_LABELS = {"k8s-app": NAME}

SET = ResourceSet(
    "nutanix-ccm-crs",
    (
        Part(CONFIG_MAP, "nutanix-ccm", "nutanix-ccm.yaml"),
        Part(SECRET, "nutanix-ccm-secret", "nutanix-ccm-secret.yaml", (SECRET,)),
    ),
)
"""The ClusterResourceSet in which EKS Anywhere has the objects of the cloud controller."""


def workload(render_input: RenderInput) -> Iterator[Manifest]:
    """The cloud controller's RBAC objects, credentials, configuration, and pod."""
    yield from rights()
    yield Manifest(SECRET, _credentials(render_input))
    if bundle := references.datacenter(render_input).additional_trust_bundle:
        yield Manifest(CONFIG_MAP, _config_map(TRUST_BUNDLE, {AUTHORITIES: bundle}))
    yield Manifest(CONFIG_MAP, _config_map(CONFIG, {FILE: json.dumps(_config(render_input), indent=2) + "\n"}))
    yield Manifest(DEPLOYMENT, _deployment(render_input))


def _credentials(render_input: RenderInput) -> Tree:
    """The credentials of the read-only user."""
    content = base64.b64encode(references.of_cloud_controller(render_input)).decode()
    metadata = {"name": CREDENTIALS, "namespace": NAMESPACE}
    return object_("v1", "Secret", metadata) | {"type": "Opaque", "data": {references.OF_MACHINES: content}}


def _config_map(name: str, data: dict[str, str]) -> Tree:
    return object_("v1", "ConfigMap", {"name": name, "namespace": NAMESPACE}) | {"data": data}


def _config(render_input: RenderInput) -> Tree:
    spec = references.datacenter(render_input)
    central: Tree = {
        "address": spec.endpoint,
        "port": spec.port,
        "insecure": spec.insecure,
        "credentialRef": {"kind": SECRET.kind, "name": CREDENTIALS, "namespace": NAMESPACE},
    }
    if spec.additional_trust_bundle:
        reference = {"kind": CONFIG_MAP.kind, "name": TRUST_BUNDLE, "namespace": NAMESPACE}
        central["additionalTrustBundle"] = reference
    ignored = [render_input.spec.endpoint_host, *node_addresses.listed(spec.ccm_exclude_node_ips)]
    return {
        "prismCentral": central,
        "enableCustomLabeling": False,
        "topologyDiscovery": {"type": "Prism"},
        "ignoredNodeIPs": list(dict.fromkeys(ignored)),
    }


def _deployment(render_input: RenderInput) -> Tree:
    container = {
        "name": NAME,
        "image": image(render_input, "cloud_provider"),
        "imagePullPolicy": "IfNotPresent",
        "args": ["--leader-elect=true", f"--cloud-config={_FOLDER}/{FILE}"],
        "env": [from_field("POD_NAMESPACE", "metadata.namespace")],
        "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}},
        "volumeMounts": [{"name": CONFIG, "mountPath": _FOLDER, "readOnly": True}],
    }
    pod = {
        "serviceAccountName": ACCOUNT,
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {CONTROL_PLANE: ""},
        "tolerations": tolerations(render_input),
        "containers": [container],
        "volumes": [{"name": CONFIG, "configMap": {"name": CONFIG}}],
    }
    metadata = {"name": NAME, "namespace": NAMESPACE, "labels": _LABELS}
    return object_(DEPLOYMENT.api_version, DEPLOYMENT.kind, metadata) | {
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": pod},
        }
    }
