"""The fields of the kubelet's configuration, as a schema: people write them into Clusters, kubelets read them strictly.

Those of Kubernetes 1.37; a kubelet of an earlier minor may lack one. Of most of what is nested, only that it is. Values
are limited to those with which a kubelet starts: by its validation of KubeletConfiguration v1beta1, or what it parses
when it starts (eviction thresholds, reserved resources), or what its API server takes from it (taints). What depends on
versions, such as feature gates and cipher suites, may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from espalier.api.definitions.structural import Schema
from espalier.api.kinds import LARGEST_INT32
from espalier.api.text.patterns import DURATION, LABEL_NAME, LABEL_VALUE, QUANTITY, SIGNED_DURATION, THRESHOLD

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"

PATCHES_FOLDER: Final = "/etc/kubernetes/patches"
PATCH: Final = f"{PATCHES_FOLDER}/kubeletconfiguration0+strategic.yaml"
"""The file on a node with which kubeadm gives it a KubeletConfiguration."""

_BOOLEANS = """
    cgroupsPerQOS cpuCFSQuota enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler
    enableDebuggingHandlers enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery
    failCgroupV1 failSwapOn kernelMemcgNotification localStorageCapacityIsolation makeIPTablesUtilChains
    mergeDefaultEvictionSettings protectKernelDefaults registerNode rotateCertificates runOnce seccompDefault
    serializeImagePulls serverTLSBootstrap singleProcessOOMKill
"""

_TEXTS = """
    address cgroupRoot clusterDomain containerLogMaxSize containerRuntimeEndpoint contentType healthzBindAddress
    imagePullCredentialsVerificationPolicy imageServiceEndpoint kubeReservedCgroup kubeletCgroups
    memoryReservationPolicy podCIDR podLogsDir providerID reservedSystemCPUs resolvConf showHiddenMetricsForVersion
    staticPodPath staticPodURL systemCgroups systemReservedCgroup tlsCertFile tlsMinVersion tlsPrivateKeyFile
    volumePluginDir
"""

_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "cgroupDriver": ("cgroupfs", "systemd"),
    "configMapAndSecretChangeDetectionStrategy": ("Get", "Cache", "Watch"),
    "cpuManagerPolicy": ("none", "static"),
    "hairpinMode": ("promiscuous-bridge", "hairpin-veth", "none"),
    "memoryManagerPolicy": ("None", "Static"),
    "topologyManagerPolicy": ("none", "best-effort", "restricted", "single-numa-node"),
    "topologyManagerScope": ("container", "pod"),
}
"""A text that is one of these; if it is empty, the kubelet uses its default."""

_INTEGERS = """
    containerLogMaxFiles containerLogMaxWorkers evictionMaxPodGracePeriod iptablesDropBit iptablesMasqueradeBit
    maxParallelImagePulls nodeStatusMaxImages
"""

_NO_LESS_THAN_0 = """
    eventBurst eventRecordQPS kubeAPIBurst kubeAPIQPS maxPods nodeLeaseDurationSeconds podsPerCore registryBurst
    registryPullQPS
"""

_RANGES: Final[dict[str, tuple[int, int]]] = {
    **dict.fromkeys(("imageGCHighThresholdPercent", "imageGCLowThresholdPercent"), (0, 100)),
    **dict.fromkeys(("healthzPort", "port", "readOnlyPort"), (0, 65535)),
    "oomScoreAdj": (-1000, 1000),
}

_DURATIONS = """
    containerLogMonitorInterval cpuCFSQuotaPeriod cpuManagerReconcilePeriod evictionPressureTransitionPeriod
    fileCheckFrequency httpCheckFrequency imageMaximumGCAge imageMinimumGCAge nodeStatusReportFrequency
    nodeStatusUpdateFrequency runtimeRequestTimeout shutdownGracePeriod shutdownGracePeriodCriticalPods
    streamingConnectionIdleTimeout syncFrequency
"""

_LISTS = """
    allowedUnsafeSysctls clusterDNS enforceNodeAllocatable preloadedImagesVerificationAllowlist tlsCipherSuites
"""

_MAPS = "cpuManagerPolicyOptions defaultPodSysctls qosReserved topologyManagerPolicyOptions"
_THRESHOLDS, _RESERVED = "evictionHard evictionMinimumReclaim evictionSoft", "kubeReserved systemReserved"

SIGNALS: Final = (
    *("memory.available", "allocatableMemory.available", "pid.available"),
    *("nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"),
    *("containerfs.available", "containerfs.inodesFree"),
)
"""Signals of eviction thresholds."""
RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")
"""Resources that can be reserved."""

_OBJECTS = "authentication authorization crashLoopBackOff logging memorySwap tracing userNamespaces"
_LISTS_OF_OBJECTS = "reservedMemory shutdownGracePeriodByPodPriority"

MOST_ITEMS: Final = 300
"""Maximum number of items of a list or map: far more than any node needs."""
MOST_BYTES: Final = 64 * 1024
"""Maximum bytes of a configuration as JSON: one with every field has 5,000. Each node gets a copy."""

_TEXT: Schema = {"type": "string"}
_OPEN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _int(largest: int, smallest: int | None = None) -> Schema:
    return {"type": "integer", "minimum": -largest - 1 if smallest is None else smallest, "maximum": largest}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items, "maxItems": MOST_ITEMS}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values, "maxProperties": MOST_ITEMS}


def _text(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


def _of(names: Iterable[str], values: Schema) -> Schema:
    """A map without other keys."""
    return {"type": "object", "properties": dict.fromkeys(names, values)}


def _each(names: str, schema: Schema) -> dict[str, Any]:
    return dict.fromkeys(names.split(), schema)


_TAINT: Final[Schema] = {
    "type": "object",
    "properties": {
        "key": _text(LABEL_NAME),
        "value": _text(LABEL_VALUE),
        "effect": {"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
        "timeAdded": _TEXT,
    },
    "required": ["key", "effect"],
}

SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string", "enum": [API_VERSION]},
        "kind": {"type": "string", "enum": [KIND]},
        **_each(_BOOLEANS, {"type": "boolean"}),
        **_each(_TEXTS, _TEXT),
        **{name: {"type": "string", "enum": ["", *values]} for name, values in _CHOICES.items()},
        **_each(_INTEGERS, _int(LARGEST_INT32)),
        **_each(_NO_LESS_THAN_0, _int(LARGEST_INT32, 0)),
        **{name: _int(largest, smallest) for name, (smallest, largest) in _RANGES.items()},
        "maxOpenFiles": _int(2**63 - 1, 0),
        "podPidsLimit": _int(2**63 - 1),
        "memoryThrottlingFactor": {"type": "number"},
        **_each(_DURATIONS, _text(DURATION)),
        "volumeStatsAggPeriod": _text(SIGNED_DURATION),
        **_each(_LISTS, _list(_TEXT)),
        **_each(_MAPS, _map(_TEXT)),
        **_each(_THRESHOLDS, _of(SIGNALS, _text(THRESHOLD))),
        "evictionSoftGracePeriod": _of(SIGNALS, _text(DURATION)),
        **_each(_RESERVED, _of(RESERVABLE, _text(QUANTITY))),
        **_each(_OBJECTS, _OPEN),
        **_each(_LISTS_OF_OBJECTS, _list(_OPEN)),
        "registerWithTaints": _list(_TAINT),
        "tlsCurvePreferences": _list(_int(LARGEST_INT32)),
        "featureGates": _map({"type": "boolean"}),
        "staticPodURLHeader": _map(_list(_TEXT)),
    },
}
