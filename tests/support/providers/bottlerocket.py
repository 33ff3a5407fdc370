"""Machines with Bottlerocket, as tests ask for them: every setting, and how machines are connected."""

from __future__ import annotations

import copy
from typing import Any

from espalier.api.meta import Tree
from tests.support.providers.nutanix import AUTHORITY

OF_KUBELETS: Tree = {
    "allowedUnsafeSysctls": ["net.core.somaxconn"],
    "clusterDNSIPs": ["10.96.0.10"],
    "clusterDomain": "cluster.example",
    "containerLogMaxFiles": 4,
    "containerLogMaxSize": "20Mi",
    "cpuCFSQuota": False,
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    "cpuManagerReconcilePeriod": "10s",
    "eventBurst": 20,
    "eventRecordQPS": 10,
    "evictionHard": {"memory.available": "5%"},
    "evictionMaxPodGracePeriod": 30,
    "evictionSoft": {"memory.available": "10%"},
    "evictionSoftGracePeriod": {"memory.available": "1m"},
    "imageGCHighThresholdPercent": 80,
    "imageGCLowThresholdPercent": 60,
    "kubeAPIBurst": 30,
    "kubeAPIQPS": 15,
    "kubeReserved": {"cpu": "100m"},
    "maxPods": 60,
    "memoryManagerPolicy": "None",
    "podPidsLimit": 4096,
    "registryBurst": 12,
    "registryPullQPS": 6,
    "shutdownGracePeriod": "1m",
    "shutdownGracePeriodCriticalPods": "20s",
    "systemReserved": {"memory": "200Mi"},
    "topologyManagerPolicy": "restricted",
    "topologyManagerScope": "pod",
}
SETTINGS: Tree = {
    "ntpConfiguration": {"servers": ["time.example.com"]},
    "certBundles": [{"name": "company", "data": AUTHORITY}],
    "bottlerocketConfiguration": {
        "boot": {"bootKernelParameters": {"console": ["tty0", "ttyS0"]}},
        "kernel": {"sysctlSettings": {"vm.max_map_count": "262144"}},
        "kubernetes": OF_KUBELETS,
    },
}
CONNECTED: Tree = {
    "proxyConfiguration": {"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3129", "noProxy": ["corp"]},
    "registryMirrorConfiguration": {
        "endpoint": "mirror.example.com",
        "port": "5000",
        "caCertContent": AUTHORITY,
        "ociNamespaces": [
            {"registry": "public.ecr.aws", "namespace": "eks"},
            {"registry": "783794618700.dkr.ecr.us-west-2.amazonaws.com", "namespace": "curated-packages"},
        ],
    },
}


def on_bottlerocket(trees: list[Tree], **fields: Any) -> list[Tree]:
    """The same, where machine configs have Bottlerocket and these fields."""
    for tree in trees:
        if tree["kind"].endswith("MachineConfig"):
            tree["spec"] |= {"osFamily": "bottlerocket"} | copy.deepcopy(fields)
    return trees
