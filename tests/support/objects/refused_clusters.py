"""Edits of a valid Cluster, and of one that exists: which are refused, at which field, and what the message says."""

from __future__ import annotations

from typing import Any

from espalier.api.meta import Tree
from tests.support.servers.admission_reviews import AUDIT, CHECK, CONTROL_PLANE, GROUP, NETWORK, POLICY, SPEC, STRATEGY

PROXY = {"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3128"}
MIRROR = {"endpoint": "mirror.example.com", "port": "5000"}
KUBELETS_REFUSE: list[tuple[str, Any, str, str]] = [
    ("maxPods", -1, "", "0 or more"),
    ("podsPerCore", -1, "", "0 or more"),
    ("evictionHard", {"disk.available": "5%"}, "evictionHard[disk.available]", "unknown field; did you mean"),
    ("evictionHard", {"memory.available": "lots"}, "evictionHard[memory.available]", 'found "lots"'),
    ("evictionHard", {"memory.available": "101%"}, "evictionHard[memory.available]", 'found "101%"'),
    ("evictionHard", {"memory.available": "-1Gi"}, "evictionHard[memory.available]", 'found "-1Gi"'),
    ("evictionSoft", {"cpu": "1"}, "evictionSoft.cpu", "unknown field"),
    ("evictionSoftGracePeriod", {"memory.available": "-1m"}, "evictionSoftGracePeriod[memory.available]", '"-1m"'),
    ("evictionMinimumReclaim", {"memory.available": ""}, "evictionMinimumReclaim[memory.available]", 'found ""'),
    ("cpuManagerPolicy", "fast", "", 'found "fast"; allowed: none, static'),
    ("memoryManagerPolicy", "static", "", 'did you mean "Static"?'),
    ("topologyManagerPolicy", "strict", "", 'found "strict"; allowed: none, best-effort, restricted, single-numa-node'),
    ("topologyManagerScope", "node", "", 'found "node"; allowed: container, pod'),
    ("cgroupDriver", "cgroup", "", 'did you mean "cgroupfs"?'),
    ("hairpinMode", "yes", "", "promiscuous-bridge, hairpin-veth, none"),
    ("systemReserved", {"gpu": "1"}, "systemReserved.gpu", "allowed: cpu, ephemeral-storage, memory, pid"),
    ("kubeReserved", {"memory": "1 GB"}, "kubeReserved.memory", 'found "1 GB"'),
    ("imageGCHighThresholdPercent", 101, "", "100 or less"),
    ("imageGCLowThresholdPercent", -1, "", "0 or more"),
    ("clusterDNS", ["dns.example.com"], "clusterDNS[0]", "not an IP address; found dns.example.com"),
    ("registerWithTaints", [{"key": "a b", "effect": "NoSchedule"}], "registerWithTaints[0].key", 'found "a b"'),
    ("registerWithTaints", [{"key": "a", "effect": "Never"}], "registerWithTaints[0].effect", 'found "Never"'),
    ("registerWithTaints", [{"key": "a"}], "registerWithTaints[0].effect", "required field is missing"),
    ("registerWithTaints", [{"key": "a", "value": "b c", "effect": "NoExecute"}], "registerWithTaints[0].value", "b c"),
    ("shutdownGracePeriod", "-1m", "", 'found "-1m"'),
    ("syncFrequency", "-1s", "", 'found "-1s"'),
    ("eventBurst", -1, "", "0 or more"),
    ("oomScoreAdj", 1001, "", "1000 or less"),
    ("readOnlyPort", 65536, "", "65535 or less"),
]
"""Fields of KubeletConfigurations, values with which no kubelet starts, the field that is named, and what is said."""


def fitting(block: str) -> Tree:
    """The other settings of the network, so that nothing else is wrong with this range."""
    if ":" not in block:
        return {NETWORK + "nodes.cidrMaskSize": 18} if block.endswith("/2") else {}
    pods, services = [f"{NETWORK}{name}.cidrBlocks" for name in ("pods", "services")]
    return {pods: ["fd00:10::/56"], services: ["fd00:20::/112"], NETWORK + "nodes.cidrMaskSize": 64}


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"metadata.name": "Garden"}, "metadata.name", "found Garden"),
    ({"metadata.name": "-garden"}, "metadata.name", "must be a DNS label that begins with a letter"),
    ({"metadata.name": "9garden"}, "metadata.name", "allowed: 2 to 35 lower-case letters, digits and dashes"),
    ({"metadata.name": "gar.den"}, "metadata.name", "choose another name"),
    ({"metadata.name": "g" * 36}, "metadata.name", "found 36 characters; allowed: at most 35"),
    ({SPEC + "kubernetesVersion": None}, "spec.kubernetesVersion", 'like "1.35"'),
    ({SPEC + "kubernetesVersion": "1.30"}, "spec.kubernetesVersion", "found 1.30; allowed: 1.34, 1.35, 1.36"),
    ({CONTROL_PLANE + "count": 0}, CONTROL_PLANE + "count", "found 0"),
    ({CONTROL_PLANE + "count": 2}, CONTROL_PLANE + "count", "their number must be odd"),
    ({CONTROL_PLANE + "certSans": ["a b"]}, CONTROL_PLANE + "certSans[0]", "addresses and DNS names"),
    ({CONTROL_PLANE + "labels": {"a b": "c"}}, CONTROL_PLANE + "labels[a b]", "not a valid label name"),
    ({CONTROL_PLANE + "labels": {"a": "c d"}}, CONTROL_PLANE + "labels[a]", "not a valid label value"),
    ({SPEC + "workerNodeGroupConfigurations": []}, "spec.workerNodeGroupConfigurations", "at least one group"),
    (
        {SPEC + "workerNodeGroupConfigurations": [{"name": "a", "count": 1}, {"name": "a", "count": 2}]},
        "spec.workerNodeGroupConfigurations[1].name",
        "two groups have this name",
    ),
    ({GROUP + "name": "Large"}, GROUP + "name", "short DNS label"),
    ({GROUP + "taints": [{"key": "a", "effect": "NoExecute"}]}, "spec.workerNodeGroupConfigurations", "CoreDNS"),
    ({GROUP + "kubernetesVersion": "1.36"}, GROUP + "kubernetesVersion", "must not be newer"),
    (
        {GROUP + STRATEGY: {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
        GROUP + "upgradeRolloutStrategy.rollingUpdate",
        "can't both be 0",
    ),
    ({SPEC + "clusterNetwork": None}, "spec.clusterNetwork", "set pods, services and cniConfig"),
    (
        {NETWORK + "pods.cidrBlocks": ["10.0.0.0/8", "11.0.0.0/8"]},
        NETWORK + "pods.cidrBlocks",
        "set exactly one range",
    ),
    *(
        (
            fitting(block) | {f"{NETWORK}{name}.cidrBlocks": [block]},
            f"{NETWORK}{name}.cidrBlocks[0]",
            f"found {block}",
        )
        for name, blocks in (
            ("pods", ("127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/12", "64.0.0.0/2", "ff00::/56", "fe80::/56")),
            ("services", ("127.0.0.0/16", "224.0.0.0/12", "ff00::/112")),
        )
        for block in blocks
    ),
    ({NETWORK + "pods.cidrBlocks": ["10.0.0.1/8"]}, NETWORK + "pods.cidrBlocks[0]", "host bits"),
    (
        {NETWORK + "services.cidrBlocks": ["192.168.3.0/24"]},
        NETWORK + "services.cidrBlocks",
        "a range outside of 192.168.0.0/16",
    ),
    (
        {NETWORK + "pods.cidrBlocks": ["192.168.0.0/24"]},
        NETWORK + "nodes.cidrMaskSize",
        "found 24; allowed: 25 to 32",
    ),
    (
        {NETWORK + "cniConfig": {"kindnetd": {}, "cilium": {}}},
        NETWORK + "cniConfig",
        "exactly one CNI",
    ),
    ({NETWORK + "cniConfig": None}, NETWORK + "cniConfig", "found nothing"),
    ({NETWORK + "cni": "cilium"}, NETWORK + "cni", "duplicate CNI"),
    (
        {SPEC + "machineHealthCheck": {"nodeStartupTimeout": "soon"}},
        "spec.machineHealthCheck.nodeStartupTimeout",
        "not a duration in hours, minutes and seconds; found soon",
    ),
    ({SPEC + "machineHealthCheck": {"nodeStartupTimeout": "10s"}}, CHECK + "nodeStartupTimeout", "30s or more, or 0s"),
    ({SPEC + "machineHealthCheck": {"nodeStartupTimeout": "99999999h"}}, CHECK + "nodeStartupTimeout", "longer than"),
    ({SPEC + "machineHealthCheck": {"unhealthyMachineTimeout": "596524h"}}, CHECK + "unhealthyMachineTimeout", "than"),
    ({SPEC + "machineHealthCheck": {"maxUnhealthy": "lots"}}, CHECK + "maxUnhealthy", "lots"),
    ({SPEC + "machineHealthCheck": {"maxUnhealthy": -3}}, CHECK + "maxUnhealthy", "-3"),
    ({SPEC + "machineHealthCheck": {"maxUnhealthy": "3"}}, CHECK + "maxUnhealthy", '"3"'),
    ({CONTROL_PLANE + "count": 1000001}, CONTROL_PLANE + "count", "1000001"),
    ({GROUP + "count": 10**12}, GROUP + "count", "1000000000000"),
    (
        {GROUP + STRATEGY: {"rollingUpdate": {"maxSurge": 10**9, "maxUnavailable": 0}}},
        GROUP + "upgradeRolloutStrategy.rollingUpdate.maxSurge",
        "1000000000",
    ),
    (
        {GROUP + STRATEGY: {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 10**9}}},
        GROUP + "upgradeRolloutStrategy.rollingUpdate.maxUnavailable",
        "1000000000",
    ),
    (
        {GROUP + "autoscalingConfiguration": {"minCount": 1, "maxCount": 10**9}},
        GROUP + "autoscalingConfiguration.maxCount",
        "1000000000",
    ),
    ({SPEC + "bundlesRef": {"apiVersion": "a", "name": "b", "namespace": "c"}}, "spec.bundlesRef", "deprecated"),
    ({AUDIT: "rules: [a"}, AUDIT, "not YAML"),
    ({AUDIT: "hello"}, AUDIT, 'not a valid audit policy; found "hello"'),
    ({AUDIT: "kind: Pod\nrules: [{level: None}]"}, AUDIT, 'found kind "Pod"; allowed: Po'),
    ({AUDIT: POLICY}, AUDIT, "needs rules"),
    ({AUDIT: POLICY + "rules: [{level: All}]"}, AUDIT, 'found rules[0].level "All"'),
    ({AUDIT: POLICY + "rules: [{level: None, users: a}]"}, AUDIT, "found rules[0].users; allowed: Expected `array"),
    ({AUDIT: POLICY + "rules: [{level: None, verbs: [1]}]"}, AUDIT, "found rules[0].verbs[0]; allowed: Expected `s"),
    ({AUDIT: POLICY + "rules: [{level: None, omitStages: [Soon]}]"}, AUDIT, 'found rules[0].omitStages "Soon"; al'),
    ({AUDIT: POLICY + "omitStages: [Soon]\nrules: [{level: None}]"}, AUDIT, 'found omitStages "Soon"; allowed: Requ'),
    ({AUDIT: POLICY + "omitStages: Panic\nrules: [{level: None}]"}, AUDIT, "found .omitStages; allowed: Expected"),
    ({AUDIT: POLICY + "rules: [{level: None, nonResourceURLs: [healthz]}]"}, AUDIT, "paths that start with /"),
    ({AUDIT: POLICY + "rules: [{level: None, nonResourceURLs: ['/a*b']}]"}, AUDIT, "with * only at the end"),
    (
        {AUDIT: POLICY + "rules: [{level: None, nonResourceURLs: ['/a'], namespaces: [b]}]"},
        AUDIT,
        "nonResourceURLs, or resources and namespaces",
    ),
    (
        {AUDIT: POLICY + "rules: [{level: None, nonResourceURLs: ['/a'], resources: [{group: b}]}]"},
        AUDIT,
        "nonResourceURLs, or resources and namespaces",
    ),
    ({AUDIT: POLICY + "rules: [{level: None, resources: [{group: apps/v1}]}]"}, AUDIT, "without its version"),
    ({AUDIT: POLICY + "rules: [{level: None, resources: [{resourceNames: [a]}]}]"}, AUDIT, "resources beside"),
    *(
        ({CONTROL_PLANE + "apiServerExtraArgs": {flag: value}}, CONTROL_PLANE + "apiServerExtraArgs." + flag, "start")
        for flag, value in (
            ("v", "loud"),
            ("v", ""),
            ("audit-log-maxage", "a week"),
            ("request-timeout", "60"),
            ("profiling", "no"),
            ("feature-gates", "A"),
            ("feature-gates", "A=yes"),
            ("allow-privileged", "false"),
            ("enable-bootstrap-token-auth", "false"),
        )
    ),
    ({CONTROL_PLANE + "apiServerExtraArgs": {"": "a"}}, CONTROL_PLANE + "apiServerExtraArgs", "not a valid flag name"),
    ({CONTROL_PLANE + "apiServerExtraArgs": {"--a b": "c"}}, CONTROL_PLANE + "apiServerExtraArgs", "leading dashes"),
    (
        {CONTROL_PLANE + "apiServerExtraArgs": {"etcd-servers": "a"}},
        CONTROL_PLANE + "apiServerExtraArgs.etcd-servers",
        "set from the cluster's configuration",
    ),
    (
        {CONTROL_PLANE + "kubeletConfiguration": {"nonsense": True}},
        CONTROL_PLANE + "kubeletConfiguration.nonsense",
        "unknown field",
    ),
    (
        {GROUP + "kubeletConfiguration": {"maxPod": 5}},
        GROUP + "kubeletConfiguration.maxPod",
        'did you mean "maxPods"',
    ),
    (
        {GROUP + "kubeletConfiguration": {"maxPods": "many"}},
        GROUP + "kubeletConfiguration.maxPods",
        'found "many" (a string); allowed: an integer',
    ),
    (
        {GROUP + "kubeletConfiguration": {"shutdownGracePeriod": "soon"}},
        GROUP + "kubeletConfiguration.shutdownGracePeriod",
        "soon",
    ),
    (
        {GROUP + "kubeletConfiguration": {"kind": "x"}},
        GROUP + "kubeletConfiguration.kind",
        'unsupported value; found "x"; allowed: KubeletConfiguration',
    ),
    *(
        ({part + "kubeletConfiguration": {name: value}}, f"{part}kubeletConfiguration.{field or name}", message)
        for part in (CONTROL_PLANE, GROUP)
        for name, value, field, message in KUBELETS_REFUSE
    ),
    *(
        ({part + "kubeletConfiguration": value}, f"{part}kubeletConfiguration{field}", message)
        for part in (CONTROL_PLANE, GROUP)
        for value, field, message in (
            ({"evictionHard": {f"a{at}": "1" for at in range(60_000)}}, "", "bytes; allowed: at most 65536 bytes of"),
            ({"logging": {"options": ["x" * 70_000]}}, "", "bytes; allowed: at most 65536 bytes of JSON"),
            ({"featureGates": {f"A{at}": True for at in range(301)}}, ".featureGates", "300 items or less"),
            ({"allowedUnsafeSysctls": ["a"] * 301}, ".allowedUnsafeSysctls", "300 items or less"),
            (
                {"evictionSoft": {"memory.available": "5%"}},
                ".evictionSoftGracePeriod",
                "each soft threshold needs a grace period; found none for memory.available",
            ),
            (
                {"imageGCHighThresholdPercent": 70},
                ".imageGCLowThresholdPercent",
                "must be below imageGCHighThresholdPercent; found 80 (the default); allowed: 0 to 69",
            ),
            (
                {"imageGCLowThresholdPercent": 85},
                ".imageGCLowThresholdPercent",
                "must be below imageGCHighThresholdPercent; found 85; allowed: 0 to 84",
            ),
        )
    ),
    ({GROUP + "taints": [{"key": "a b/!", "effect": "PreferNoSchedule"}]}, GROUP + "taints[0].key", "not a valid t"),
    (
        {CONTROL_PLANE + STRATEGY: {"type": "InPlace", "rollingUpdate": {"maxSurge": 1}}},
        CONTROL_PLANE + STRATEGY + ".rollingUpdate",
        "one machine at a time",
    ),
    ({SPEC + "packages": {"controller": {"tag": "a"}}}, "spec.packages.controller", "management cluster installs"),
    ({NETWORK + "services.cidrBlocks": ["fd00::/108"]}, NETWORK + "services.cidrBlocks", "same IP family"),
    ({NETWORK + "services.cidrBlocks": ["10.96.0.1/32"]}, NETWORK + "services.cidrBlocks", "at least 8 addresses"),
    (
        {NETWORK + "cniConfig": {"cilium": {"ipv4NativeRoutingCIDR": "banana"}}},
        NETWORK + "cniConfig.cilium.ipv4NativeRoutingCIDR",
        "not a range in CIDR notation; found banana",
    ),
    # What nothing acts on, and what would give another cluster.
    ({SPEC + "datacenterRef.kind": "AWSDatacenterConfig"}, "spec.datacenterRef.kind", "not support this provider"),
    ({SPEC + "externalEtcdConfiguration": {"count": 3}}, "spec.externalEtcdConfiguration", "remove the field"),
    *(
        ({SPEC + "proxyConfiguration": PROXY | proxy}, f"spec.proxyConfiguration.{field}", message)
        for proxy, field, message in (
            ({"httpProxy": ""}, "httpProxy", "set both"),
            ({"httpsProxy": "proxy"}, "httpsProxy", "not a proxy address; found proxy"),
            ({"httpsProxy": "proxy:70000"}, "httpsProxy", "not a proxy address; found proxy:70000"),
            ({"httpsProxy": 'a" b:1'}, "httpsProxy", "not a proxy address"),
            ({"httpsProxy": "me:word@proxy"}, "httpsProxy", "found an address with user or password; allowed"),
            ({"httpsProxy": "ftp://me:word@proxy:1"}, "httpsProxy", "found an address with user or password; allowed"),
            ({"noProxy": ["a,b"]}, "noProxy[0]", "one name for each item"),
        )
    ),
    *(
        ({SPEC + "registryMirrorConfiguration": MIRROR | mirror}, f"spec.registryMirrorConfiguration.{field}", message)
        for mirror, field, message in (
            ({"endpoint": ""}, "endpoint", "set the host of the mirror"),
            ({"endpoint": "https://mirror"}, "endpoint", "the port has its own field"),
            ({"port": "0"}, "port", "not a port; found 0"),
            ({"port": "65536"}, "port", "not a port"),
            ({"caCertContent": "hello"}, "caCertContent", "certificates as PEM"),
            ({"ociNamespaces": [{"registry": "", "namespace": "a"}]}, "ociNamespaces[0].registry", "not a registry"),
            ({"ociNamespaces": [{"registry": "a"}, {"registry": "a"}]}, "ociNamespaces[1].registry", "duplicate"),
            ({"ociNamespaces": [{"registry": "a", "namespace": "/"}]}, "ociNamespaces[0].namespace", "not a path"),
        )
    ),
    (
        {SPEC + "identityProviderRefs": [{"kind": "LDAPConfig", "name": "a"}]},
        "spec.identityProviderRefs[0].kind",
        "found LDAPConfig; allowed: OIDCConfig",
    ),
    (
        {SPEC + "identityProviderRefs": [{"kind": "OIDCConfig", "name": "a"}, {"kind": "OIDCConfig", "name": "b"}]},
        "spec.identityProviderRefs[1].kind",
        "the second would have no effect",
    ),
    (
        {
            SPEC + "identityProviderRefs": [{"kind": "OIDCConfig", "name": "a"}],
            CONTROL_PLANE + "apiServerExtraArgs": {"oidc-client-id": "b"},
        },
        CONTROL_PLANE + "apiServerExtraArgs.oidc-client-id",
        "the OIDCConfig sets this flag too",
    ),
    *(
        (
            {CONTROL_PLANE + "apiServerExtraArgs": {"oidc-issuer-url": issuer} | flags, **issuers},
            CONTROL_PLANE + "apiServerExtraArgs.oidc-issuer-url",
            "kube-apiserver does not start if this provider is also the issuer of service account tokens",
        )
        for issuer, flags, issuers in (
            ("https://kubernetes.default.svc.cluster.local", {}, {}),
            ("https://a.example.com", {"service-account-issuer": "https://a.example.com"}, {}),
            ("https://a.example.com", {}, {SPEC + "podIamConfig": {"serviceAccountIssuer": "https://a.example.com"}}),
        )
    ),
    ({SPEC + "podIamConfig": {"serviceAccountIssuer": ""}}, "spec.podIamConfig.serviceAccountIssuer", "set the issuer"),
    (
        {SPEC + "podIamConfig": {"serviceAccountIssuer": "http://s3"}},
        "spec.podIamConfig.serviceAccountIssuer",
        "it must use https; found http://s3; allowed: a URL that begins with https://",
    ),
    *(
        ({part + "labels": {name: "a"}}, f"{part}labels[{name}]", "use a domain of your own")
        for part in (CONTROL_PLANE, GROUP)
        for name in ("node-role.kubernetes.io/worker", "kubernetes.io/role", "k8s.io/a", "a.k8s.io/b")
    ),
    ({"metadata.name": "a"}, "metadata.name", "rejects names of a single letter; choose a longer one; found a"),
    ({SPEC + "etcdEncryption": [{"providers": [], "resources": []}]}, "spec.etcdEncryption", "encryption in etcd"),
    ({CONTROL_PLANE + "endpoint": {"host": "10.0.0.1"}}, CONTROL_PLANE + "endpoint.host", "load balancer"),
    ({CONTROL_PLANE + STRATEGY: {"fallback": "Fail"}}, CONTROL_PLANE + STRATEGY + ".fallback", "set type"),
    ({GROUP + STRATEGY: {"fallback": "RollingUpdate"}}, GROUP + STRATEGY + ".fallback", "in-place upgrades"),
    (
        {GROUP + "count": 4, GROUP + "autoscalingConfiguration": {"minCount": 1, "maxCount": 3}},
        GROUP + "count",
        "found 4; allowed: 1 to 3",
    ),
    (
        {GROUP + "count": None, GROUP + "autoscalingConfiguration": {"minCount": 4, "maxCount": 3}},
        GROUP + "autoscalingConfiguration.minCount",
        "found 4; allowed: at most 3",
    ),
    (
        {GROUP + "autoscalingConfiguration": {"minCount": 1, "maxCount": 3}, GROUP + STRATEGY: {"type": "InPlace"}},
        GROUP + STRATEGY + ".type",
        "autoscaled groups are not upgraded",
    ),
    ({GROUP + "failureDomains": ["a"]}, GROUP + "failureDomains", "no failure domains"),
    ({GROUP + "kubeletConfiguration": {"providerID": "a"}}, GROUP + "kubeletConfiguration.providerID", "sets it"),
    (
        {NETWORK + "cniConfig": {"cilium": {"helmValues": {"a": 1}}}},
        NETWORK + "cniConfig.cilium.helmValues",
        "remove",
    ),
    (
        {NETWORK + "cniConfig": {"cilium": {"routingMode": "direct"}}},
        NETWORK + "cniConfig.cilium.ipv4NativeRoutingCIDR",
        "without masquerading",
    ),
    (
        {NETWORK + "cniConfig": {"cilium": {"skipUpgrade": True, "policyEnforcementMode": "always"}}},
        NETWORK + "cniConfig.cilium.policyEnforcementMode",
        "you manage Cilium's settings",
    ),
]  # fmt: skip
"""Clusters that are refused: what is changed of the example, the field that is named, and what is said of it."""
CHANGED: list[tuple[dict[str, Any], str | None, str]] = [
    ({SPEC + "kubernetesVersion": "1.36"}, None, ""),
    ({SPEC + "kubernetesVersion": "1.34"}, "spec.kubernetesVersion", "can't be downgraded from 1.35"),
    ({SPEC + "kubernetesVersion": "1.37"}, "spec.kubernetesVersion", "upgrade to the versions in between first"),
    ({GROUP + "count": 7}, None, ""),
    ({CONTROL_PLANE + "count": 3}, None, ""),
    ({SPEC + "managementCluster": {"name": "other"}}, "spec.managementCluster.name", "create another cluster"),
    ({SPEC + "datacenterRef.name": "other"}, "spec.datacenterRef", "create another cluster"),
    ({NETWORK + "pods.cidrBlocks": ["10.1.0.0/16"]}, NETWORK + "pods", "create another"),
    ({NETWORK + "services.cidrBlocks": ["10.1.0.0/16"]}, NETWORK + "services", "can't be changed"),
    ({NETWORK + "nodes": {"cidrMaskSize": 26}}, NETWORK + "nodes", "can't be changed"),
    ({SPEC + "eksaVersion": None}, "spec.eksaVersion", "not removed"),
]  # fmt: skip
"""Changes of the example: None where they are accepted."""
