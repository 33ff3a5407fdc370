"""kindnetd: routes between nodes, and the CNI plugin configuration on each. For clusters of containers."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.core import DAEMON_SET
from espalier.api.eksa.releases.components import KindnetdBundle
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusters.design.render.cni.workloads import EVERYWHERE, NAMESPACE, account, from_field, host_path, rule

NAME = "kindnet"

_LABELS = {"app": NAME, "k8s-app": NAME, "tier": "node"}
_READ = ("list", "watch")
_RULES = (
    rule([""], ["nodes"], ("get", *_READ, "patch")),
    rule([""], ["pods", "namespaces"], _READ),
    rule(["networking.k8s.io"], ["networkpolicies"], _READ),
    rule(["policy.networking.k8s.io"], ["adminnetworkpolicies", "baselineadminnetworkpolicies"], _READ),
)


def objects(bundle: KindnetdBundle | None, pods: Sequence[str]) -> list[tuple[Resource, Tree]]:
    """The agent of every node, with its RBAC; `pods` are the CIDRs of pods."""
    image = bundle.image.uri if bundle and bundle.image else ""
    return [*account(NAME, _LABELS, _RULES), (DAEMON_SET, _daemon_set(image, pods))]


def _daemon_set(image: str, pods: Sequence[str]) -> Tree:
    container = {
        "name": "kindnet-cni",
        "image": image,
        "env": [
            from_field("HOST_IP", "status.hostIP"),
            from_field("POD_IP", "status.podIP"),
            {"name": "POD_SUBNET", "value": ",".join(pods)},
        ],
        "volumeMounts": [
            {"name": "cni-cfg", "mountPath": "/etc/cni/net.d"},
            {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
            {"name": "lib-modules", "mountPath": "/lib/modules", "readOnly": True},
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}, "limits": {"memory": "100Mi"}},
        "securityContext": {"privileged": False, "capabilities": {"add": ["NET_RAW", "NET_ADMIN"]}},
    }
    return {
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": _LABELS},
        "spec": {
            "selector": {"matchLabels": {"app": NAME}},
            "template": {
                "metadata": {"labels": _LABELS},
                "spec": {
                    "hostNetwork": True,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": NAME,
                    "tolerations": EVERYWHERE,
                    "containers": [container],
                    "volumes": [
                        host_path("cni-cfg", "/etc/cni/net.d"),
                        host_path("xtables-lock", "/run/xtables.lock", "FileOrCreate"),
                        host_path("lib-modules", "/lib/modules"),
                    ],
                },
            },
        },
    }
