"""Ordinary requests whose answer has kube-apiserver's status and another body, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

_OWN_DOCUMENT = "schemas of kinds, lists and options that are needed here, and paths with what kubectl reads of them"
OTHER_BODIES: Mapping[str, str] = {
    "paths": "kube-apiserver names paths of its health checks, metrics and more groups",
    "version": "no Go program was built: compiler, commit, platform and version of Go are empty",
    "OpenAPI v2": _OWN_DOCUMENT,
    "index of OpenAPI v3": _OWN_DOCUMENT,
    "OpenAPI v3 of apps": _OWN_DOCUMENT,
    "OpenAPI v3 of policy": _OWN_DOCUMENT,
    "OpenAPI v3 of a custom kind": _OWN_DOCUMENT,
    "Deployment without a template": "required fields are judged before other rules; kube-apiserver judges both",
}

NOT_SERVED = frozenset(
    {
        "apiregistration.k8s.io",
        "attach",
        "autoscaling",
        "bindings",
        "clustertrustbundles",
        "componentstatuses",
        "csistoragecapacities",
        "ephemeralcontainers",
        "exec",
        "flowcontrol.apiserver.k8s.io",
        "ipaddresses",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "podcertificaterequests",
        "portforward",
        "proxy",
        "resize",
        "resource.k8s.io",
        "servicecidrs",
        "storagemigration.k8s.io",
        "token",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "volumeattributesclasses",
    }
)
"""Groups, resources and subresources of kube-apiserver, by name, that the embedded server does not have."""
