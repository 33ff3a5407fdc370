"""Cilium: an agent on every node, an operator, their configuration and RBAC."""

from __future__ import annotations

from espalier.api.core import CONFIG_MAP, DAEMON_SET, DEPLOYMENT
from espalier.api.eksa.parts.network import CiliumConfig
from espalier.api.eksa.releases.components import CiliumBundle, Image
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusters.design.render.cni.workloads import EVERYWHERE, NAMESPACE, account, from_field, host_path, rule

AGENT = "cilium"
OPERATOR = "cilium-operator"
CONFIG = "cilium-config"
CONFIG_FOLDER = "/tmp/cilium/config-map"  # noqa: S108 - inside the container, where Cilium looks for it

_AGENT_LABELS = {"k8s-app": AGENT, "app.kubernetes.io/name": "cilium-agent", "app.kubernetes.io/part-of": AGENT}
_OPERATOR_LABELS = {
    "io.cilium/app": "operator",
    "name": OPERATOR,
    "app.kubernetes.io/name": OPERATOR,
    "app.kubernetes.io/part-of": AGENT,
}

_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete")
_POLICIES = ("ciliumnetworkpolicies", "ciliumclusterwidenetworkpolicies")
_AGENT_RULES = (
    rule(["networking.k8s.io"], ["networkpolicies"], _READ),
    rule(["discovery.k8s.io"], ["endpointslices"], _READ),
    rule([""], ["namespaces", "services", "pods", "endpoints", "nodes"], _READ),
    rule([""], ["nodes/status"], ("patch",)),
    rule(["apiextensions.k8s.io"], ["customresourcedefinitions"], _READ),
    rule(
        ["cilium.io"],
        [
            *_POLICIES,
            "ciliumcidrgroups",
            "ciliumegressgatewaypolicies",
            "ciliumidentities",
            "ciliumlocalredirectpolicies",
            "ciliumloadbalancerippools",
            "ciliuml2announcementpolicies",
            "ciliumpodippools",
            "ciliumnodes",
            "ciliumendpoints",
            "ciliumendpointslices",
        ],
        _READ,
    ),
    rule(["cilium.io"], ["ciliumidentities", "ciliumendpoints", "ciliumnodes"], ("create",)),
    rule(["cilium.io"], ["ciliumidentities"], ("update",)),
    rule(["cilium.io"], ["ciliumendpoints"], ("delete",)),
    rule(["cilium.io"], ["ciliumnodes", "ciliumnodes/status"], ("get", "update")),
    rule(
        ["cilium.io"],
        ["ciliumendpoints/status", "ciliumendpoints", "ciliuml2announcementpolicies/status"],
        ("patch",),
    ),
)
_OPERATOR_RULES = (
    rule([""], ["pods"], ("get", "list", "watch", "delete")),
    rule([""], ["nodes"], ("list", "watch")),
    rule([""], ["nodes", "nodes/status"], ("patch",)),
    rule([""], ["services", "endpoints", "namespaces", "secrets"], _READ),
    rule(["discovery.k8s.io"], ["endpointslices"], _READ),
    rule(["cilium.io"], list(_POLICIES), (*_READ, *_WRITE)),
    rule(["cilium.io"], [f"{policy}/status" for policy in _POLICIES], ("patch", "update")),
    rule(["cilium.io"], ["ciliumendpoints", "ciliumidentities"], ("list", "watch", "delete")),
    rule(["cilium.io"], ["ciliumidentities"], ("update",)),
    rule(["cilium.io"], ["ciliumnodes"], (*_READ, *_WRITE)),
    rule(["cilium.io"], ["ciliumnodes/status"], ("update",)),
    rule(["cilium.io"], ["ciliumendpointslices", "ciliumenvoyconfigs"], (*_READ, *_WRITE)),
    rule(["cilium.io"], ["ciliumloadbalancerippools", "ciliumpodippools", "ciliumcidrgroups"], _READ),
    rule(["apiextensions.k8s.io"], ["customresourcedefinitions"], (*_READ, "create", "update")),
    rule(["coordination.k8s.io"], ["leases"], ("create", "get", "update")),
)


def objects(bundle: CiliumBundle | None, config: CiliumConfig, cluster: str) -> list[tuple[Resource, Tree]]:
    """Agent and operator with their RBAC and configuration."""
    agent, operator = (bundle.cilium, bundle.operator) if bundle else (None, None)
    config_map = {"metadata": {"name": CONFIG, "namespace": NAMESPACE}, "data": configuration(config, cluster)}
    return [
        *account(AGENT, {"app.kubernetes.io/part-of": AGENT}, _AGENT_RULES),
        *account(OPERATOR, {"app.kubernetes.io/part-of": AGENT}, _OPERATOR_RULES),
        (CONFIG_MAP, config_map),
        (DAEMON_SET, _agent(agent)),
        (DEPLOYMENT, _operator(operator)),
    ]


def configuration(config: CiliumConfig, cluster: str) -> dict[str, str]:
    """The options of both: those of the Cluster override EKS Anywhere's defaults."""
    is_direct = config.routing_mode == "direct"
    data = {
        "cluster-name": cluster,
        "cluster-id": "0",
        "identity-allocation-mode": "crd",
        "ipam": "kubernetes",
        "enable-ipv4": "true",
        "enable-ipv6": "false",
        "enable-ipv4-masquerade": "true",
        "enable-policy": config.policy_enforcement_mode or "default",
        "routing-mode": "native" if is_direct else "tunnel",
        "auto-direct-node-routes": "true" if is_direct else "false",
        "kube-proxy-replacement": "false",
        "bpf-lb-sock-hostns-only": "false",
        "cni-exclusive": "false" if config.cni_exclusive is False else "true",
        "cni-log-file": "/var/run/cilium/cilium-cni.log",
        "write-cni-conf-when-ready": "/host/etc/cni/net.d/05-cilium.conflist",
        "operator-api-serve-addr": "127.0.0.1:9234",
        "unmanaged-pod-watcher-interval": "15",
    }
    if not is_direct:
        data["tunnel-protocol"] = "geneve"
    given = {
        "egress-masquerade-interfaces": config.egress_masquerade_interfaces,
        "ipv4-native-routing-cidr": config.ipv4_native_routing_cidr,
        "ipv6-native-routing-cidr": config.ipv6_native_routing_cidr,
    }
    return data | {name: value for name, value in given.items() if value}


def _agent(image: Image | None) -> Tree:
    uri = image.uri if image else ""
    environment = [
        from_field("K8S_NODE_NAME", "spec.nodeName"),
        from_field("CILIUM_K8S_NAMESPACE", "metadata.namespace"),
    ]
    health = {"host": "127.0.0.1", "path": "/healthz", "port": 9879, "scheme": "HTTP"}
    agent = {
        "name": "cilium-agent",
        "image": uri,
        "command": ["cilium-agent"],
        "args": [f"--config-dir={CONFIG_FOLDER}"],
        "env": environment,
        "startupProbe": {"httpGet": health, "failureThreshold": 105, "periodSeconds": 2},
        "readinessProbe": {"httpGet": health, "failureThreshold": 3, "periodSeconds": 30},
        "livenessProbe": {"httpGet": health, "failureThreshold": 10, "periodSeconds": 30},
        "securityContext": {"privileged": True},
        "volumeMounts": [
            {"name": "bpf-maps", "mountPath": "/sys/fs/bpf", "mountPropagation": "Bidirectional"},
            {"name": "cilium-run", "mountPath": "/var/run/cilium"},
            {"name": "cilium-config", "mountPath": CONFIG_FOLDER, "readOnly": True},
            {"name": "etc-cni-netd", "mountPath": "/host/etc/cni/net.d"},
            {"name": "lib-modules", "mountPath": "/lib/modules", "readOnly": True},
            {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
        ],
    }
    install = {
        "name": "install-cni-binaries",
        "image": uri,
        "command": ["/install-plugin.sh"],
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "cni-path", "mountPath": "/host/opt/cni/bin"}],
    }
    return {
        "metadata": {"name": AGENT, "namespace": NAMESPACE, "labels": _AGENT_LABELS},
        "spec": {
            "selector": {"matchLabels": {"k8s-app": AGENT}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
            "template": {
                "metadata": {"labels": _AGENT_LABELS},
                "spec": {
                    "hostNetwork": True,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": AGENT,
                    "terminationGracePeriodSeconds": 1,
                    "tolerations": EVERYWHERE,
                    "initContainers": [install],
                    "containers": [agent],
                    "volumes": [
                        host_path("bpf-maps", "/sys/fs/bpf", "DirectoryOrCreate"),
                        host_path("cilium-run", "/var/run/cilium", "DirectoryOrCreate"),
                        {"name": "cilium-config", "configMap": {"name": CONFIG}},
                        host_path("etc-cni-netd", "/etc/cni/net.d", "DirectoryOrCreate"),
                        host_path("cni-path", "/opt/cni/bin", "DirectoryOrCreate"),
                        host_path("lib-modules", "/lib/modules"),
                        host_path("xtables-lock", "/run/xtables.lock", "FileOrCreate"),
                    ],
                },
            },
        },
    }


def _operator(image: Image | None) -> Tree:
    container = {
        "name": OPERATOR,
        "image": image.uri if image else "",
        "command": ["cilium-operator-generic"],
        "args": [f"--config-dir={CONFIG_FOLDER}"],
        "env": [
            from_field("K8S_NODE_NAME", "spec.nodeName"),
            from_field("CILIUM_K8S_NAMESPACE", "metadata.namespace"),
        ],
        "livenessProbe": {
            "httpGet": {"host": "127.0.0.1", "path": "/healthz", "port": 9234, "scheme": "HTTP"},
            "initialDelaySeconds": 60,
            "periodSeconds": 10,
        },
        "volumeMounts": [{"name": "cilium-config", "mountPath": CONFIG_FOLDER, "readOnly": True}],
    }
    return {
        "metadata": {"name": OPERATOR, "namespace": NAMESPACE, "labels": _OPERATOR_LABELS},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"io.cilium/app": "operator", "name": OPERATOR}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "50%"}},
            "template": {
                "metadata": {"labels": _OPERATOR_LABELS},
                "spec": {
                    "hostNetwork": True,
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "priorityClassName": "system-cluster-critical",
                    "serviceAccountName": OPERATOR,
                    "tolerations": EVERYWHERE,
                    "containers": [container],
                    "volumes": [{"name": "cilium-config", "configMap": {"name": CONFIG}}],
                },
            },
        },
    }
