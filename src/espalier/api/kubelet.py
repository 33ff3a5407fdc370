"""The fields of the kubelet's configuration, as a schema: people write them into Clusters, kubelets read them strictly.

Those of Kubernetes 1.36; a kubelet of an earlier minor may lack one. Of what is nested, only that it is.
"""

from __future__ import annotations

from typing import Any, Final

from espalier.api.kinds import LARGEST_INT32
from espalier.api.structural import Schema

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"

PATCHES_FOLDER: Final = "/etc/kubernetes/patches"
PATCH: Final = f"{PATCHES_FOLDER}/kubeletconfiguration0+strategic.yaml"
"""The file on a node by which kubeadm brings a KubeletConfiguration to it."""

_BOOLEANS = """
    cgroupsPerQOS cpuCFSQuota enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler
    enableDebuggingHandlers enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery
    failCgroupV1 failSwapOn kernelMemcgNotification localStorageCapacityIsolation makeIPTablesUtilChains
    mergeDefaultEvictionSettings protectKernelDefaults registerNode rotateCertificates runOnce seccompDefault
    serializeImagePulls serverTLSBootstrap singleProcessOOMKill
"""

_TEXTS = """
    address cgroupDriver cgroupRoot clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxSize
    containerRuntimeEndpoint contentType cpuManagerPolicy hairpinMode healthzBindAddress
    imagePullCredentialsVerificationPolicy imageServiceEndpoint kubeReservedCgroup kubeletCgroups
    memoryManagerPolicy memoryReservationPolicy podCIDR podLogsDir providerID reservedSystemCPUs resolvConf
    showHiddenMetricsForVersion staticPodPath staticPodURL systemCgroups systemReservedCgroup tlsCertFile
    tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy topologyManagerScope volumePluginDir
"""

_INTEGERS = """
    containerLogMaxFiles containerLogMaxWorkers eventBurst eventRecordQPS evictionMaxPodGracePeriod healthzPort
    imageGCHighThresholdPercent imageGCLowThresholdPercent iptablesDropBit iptablesMasqueradeBit kubeAPIBurst
    kubeAPIQPS maxParallelImagePulls maxPods nodeLeaseDurationSeconds nodeStatusMaxImages oomScoreAdj podsPerCore
    port readOnlyPort registryBurst registryPullQPS
"""

_DURATIONS = """
    containerLogMonitorInterval cpuCFSQuotaPeriod cpuManagerReconcilePeriod evictionPressureTransitionPeriod
    fileCheckFrequency httpCheckFrequency imageMaximumGCAge imageMinimumGCAge nodeStatusReportFrequency
    nodeStatusUpdateFrequency runtimeRequestTimeout shutdownGracePeriod shutdownGracePeriodCriticalPods
    streamingConnectionIdleTimeout syncFrequency volumeStatsAggPeriod
"""

_LISTS = """
    allowedUnsafeSysctls clusterDNS enforceNodeAllocatable preloadedImagesVerificationAllowlist tlsCipherSuites
"""

_MAPS = """
    cpuManagerPolicyOptions evictionHard evictionMinimumReclaim evictionSoft evictionSoftGracePeriod kubeReserved
    qosReserved systemReserved topologyManagerPolicyOptions
"""

_OBJECTS = "authentication authorization crashLoopBackOff logging memorySwap tracing userNamespaces"
_LISTS_OF_OBJECTS = "registerWithTaints reservedMemory shutdownGracePeriodByPodPriority"

_GO_DURATION = r"^[-+]?(0|([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h))+$"
_TEXT: Schema = {"type": "string"}
_OPEN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _int(largest: int) -> Schema:
    return {"type": "integer", "minimum": -largest - 1, "maximum": largest}


def _each(names: str, schema: Schema) -> dict[str, Any]:
    return dict.fromkeys(names.split(), schema)


SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string", "enum": [API_VERSION]},
        "kind": {"type": "string", "enum": [KIND]},
        **_each(_BOOLEANS, {"type": "boolean"}),
        **_each(_TEXTS, _TEXT),
        **_each(_INTEGERS, _int(LARGEST_INT32)),
        **_each("maxOpenFiles podPidsLimit", _int(2**63 - 1)),
        **_each("memoryThrottlingFactor", {"type": "number"}),
        **_each(_DURATIONS, {"type": "string", "pattern": _GO_DURATION}),
        **_each(_LISTS, {"type": "array", "items": _TEXT}),
        **_each(_MAPS, {"type": "object", "additionalProperties": _TEXT}),
        **_each(_OBJECTS, _OPEN),
        **_each(_LISTS_OF_OBJECTS, {"type": "array", "items": _OPEN}),
        "tlsCurvePreferences": {"type": "array", "items": _int(LARGEST_INT32)},
        "featureGates": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "staticPodURLHeader": {"type": "object", "additionalProperties": {"type": "array", "items": _TEXT}},
    },
}
