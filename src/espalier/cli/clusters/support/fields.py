"""The fields of objects that a support bundle may have. All others are left out: a new field is private until listed.

Values of annotations, labels and other maps with names of users are never listed, and no field whose content is a
file, a command line, an environment or user data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from espalier.api import core
from espalier.api.eksa.vocabulary.group import GROUP
from espalier.api.meta import Tree
from espalier.cli.clusters.support import values

_REFERENCE = "{apiVersion,apiGroup,kind,name,namespace}"
_ROLLOUT = "{type,rollingUpdate.maxSurge,rollingUpdate.maxUnavailable}"
_CONDITION = "{type,status,severity,reason,message,lastTransitionTime,observedGeneration}"
_GENERAL = (
    "apiVersion",
    "kind",
    "metadata.{name,namespace,uid,generation,resourceVersion,creationTimestamp,deletionTimestamp}",
    "metadata.finalizers[]",
    "metadata.ownerReferences[].{apiVersion,kind,name,uid,controller}",
    f"status.conditions[].{_CONDITION}",
    f"status.deprecated.v1beta1.conditions[].{_CONDITION}",
    f"status.v1beta2.conditions[].{_CONDITION}",
    "status.{observedGeneration,childrenObservedGeneration,reconciledGeneration,phase,ready,version,failureReason}",
    "status.{failureMessage,replicas,readyReplicas,availableReplicas,upToDateReplicas,updatedReplicas}",
    "status.{unavailableReplicas,initialized,lastUpdated}",
    "status.initialization.{provisioned,controlPlaneInitialized,infrastructureProvisioned,dataSecretCreated}",
)
"""Of every kind that is read."""
_MACHINES = (
    "spec.{clusterName,replicas,paused}",
    "spec.{rolloutAfter,minReadySeconds}",
    "spec.template.spec.{clusterName,version,failureDomain}",
    f"spec.template.spec.bootstrap.configRef.{_REFERENCE}",
    f"spec.template.spec.infrastructureRef.{_REFERENCE}",
    f"spec.rollout.strategy.{_ROLLOUT}",
    "spec.rollout.after",
    f"spec.strategy.{_ROLLOUT}",
)
_POD = (
    "spec.nodeName",
    "spec.{containers,initContainers}[].{name,image}",
    "status.{reason,message,startTime}",
    "status.{containerStatuses,initContainerStatuses}[].{name,image,imageID,ready,started,restartCount}",
    "status.{containerStatuses,initContainerStatuses}[].{state,lastState}.{waiting,terminated,running}"
    ".{reason,message,exitCode,signal,startedAt,finishedAt}",
)
_DEPLOYMENT = ("spec.replicas", "spec.template.spec.{containers,initContainers}[].{name,image}")
_WEBHOOKS = ("webhooks[].{name,failurePolicy,timeoutSeconds}", "webhooks[].clientConfig.service.{name,namespace}")

ALLOWED: Mapping[tuple[str, str], tuple[str, ...]] = {
    (GROUP, "Cluster"): (
        "spec.{kubernetesVersion,eksaVersion,managementCluster.name}",
        "spec.bundlesRef.{name,namespace,apiVersion}",
        "spec.{datacenterRef,gitOpsRef}.{kind,name}",
        "spec.identityProviderRefs[].{kind,name}",
        "spec.clusterNetwork.{pods,services}.cidrBlocks[]",
        "spec.clusterNetwork.cniConfig.cilium.{policyEnforcementMode,skipUpgrade}",
        "spec.controlPlaneConfiguration.{count,endpoint.host,machineGroupRef.kind,machineGroupRef.name}",
        f"spec.controlPlaneConfiguration.upgradeRolloutStrategy.{_ROLLOUT}",
        "spec.externalEtcdConfiguration.{count,machineGroupRef.kind,machineGroupRef.name}",
        "spec.workerNodeGroupConfigurations[].{name,count,kubernetesVersion,failureDomains[]}",
        "spec.workerNodeGroupConfigurations[].machineGroupRef.{kind,name}",
        "spec.workerNodeGroupConfigurations[].autoscalingConfiguration.{minCount,maxCount}",
        f"spec.workerNodeGroupConfigurations[].upgradeRolloutStrategy.{_ROLLOUT}",
        "spec.registryMirrorConfiguration.{endpoint,port,authenticate,insecureSkipVerify}",
        "status.clusterCertificateInfo[].{machine,expiresInDays}",
    ),
    (GROUP, "EKSARelease"): ("spec.{version,gitTag,releaseDate,bundlesRef.name,bundlesRef.namespace}",),
    (GROUP, "NodeUpgrade"): (
        f"spec.machine.{_REFERENCE}",
        "spec.{kubernetesVersion,etcdVersion,firstNodeToBeUpgraded}",
        "status.completed",
    ),
    (GROUP, "ControlPlaneUpgrade"): (
        "spec.{kubernetesVersion,etcdVersion}",
        f"spec.controlPlane.{_REFERENCE}",
        f"spec.machinesRequireUpgrade[].{_REFERENCE}",
        "status.{requireUpgrade,upgraded}",
    ),
    (GROUP, "MachineDeploymentUpgrade"): (
        "spec.kubernetesVersion",
        f"spec.machineDeployment.{_REFERENCE}",
        f"spec.machinesRequireUpgrade[].{_REFERENCE}",
        "status.{requireUpgrade,upgraded}",
    ),
    ("cluster.x-k8s.io", "Cluster"): (
        "spec.{paused,controlPlaneEndpoint.host,controlPlaneEndpoint.port}",
        f"spec.{{controlPlaneRef,infrastructureRef}}.{_REFERENCE}",
        "status.{controlPlane,workers}.{desiredReplicas,replicas,readyReplicas,availableReplicas,upToDateReplicas}",
    ),
    ("cluster.x-k8s.io", "MachineDeployment"): _MACHINES,
    ("cluster.x-k8s.io", "MachineSet"): _MACHINES,
    ("cluster.x-k8s.io", "Machine"): (
        "spec.{clusterName,version,providerID,failureDomain,bootstrap.dataSecretName}",
        f"spec.bootstrap.configRef.{_REFERENCE}",
        f"spec.infrastructureRef.{_REFERENCE}",
        "status.nodeRef.name",
        "status.nodeInfo.{kubeletVersion,osImage,kernelVersion,containerRuntimeVersion,architecture}",
        "status.certificatesExpiryDate",
        "status.deletion.{nodeDrainStartTime,waitForNodeVolumeDetachStartTime}",
    ),
    ("cluster.x-k8s.io", "MachineHealthCheck"): (
        "spec.{clusterName,maxUnhealthy,nodeStartupTimeout}",
        "status.{expectedMachines,currentHealthy,remediationsAllowed}",
    ),
    ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"): (
        "spec.{replicas,version,rolloutAfter,rollout.after}",
        f"spec.rollout.strategy.{_ROLLOUT}",
        f"spec.rolloutStrategy.{_ROLLOUT}",
        f"spec.machineTemplate.infrastructureRef.{_REFERENCE}",
        f"spec.machineTemplate.spec.infrastructureRef.{_REFERENCE}",
        "status.lastRemediation.{machine,retryCount,time,timestamp}",
    ),
    ("", "Event"): (
        "involvedObject.{kind,name,namespace,apiVersion}",
        "source.component",
        "{type,reason,message,count,firstTimestamp,lastTimestamp,eventTime,reportingComponent}",
        "series.{count,lastObservedTime}",
    ),
    ("", "Node"): (
        "spec.unschedulable",
        "spec.taints[].{key,effect}",
        "status.nodeInfo.{kubeletVersion,osImage,kernelVersion,containerRuntimeVersion,architecture}",
    ),
    ("", "Pod"): _POD,
    ("apps", "Deployment"): _DEPLOYMENT,
    ("coordination.k8s.io", "Lease"): ("spec.{holderIdentity,renewTime,acquireTime,leaseTransitions}",),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        "spec.{group,names.kind,names.plural}",
        "spec.versions[].{name,served,storage}",
        "status.storedVersions[]",
    ),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
}
"""Fields of a kind, by group and kind, beside those of every kind."""

TEXTS = frozenset({"message", "failureMessage"})
"""Names of fields with sentences, which may quote anything."""


@dataclass
class Admitted:
    """The part of an object that a bundle may have, and what was left out of it."""

    tree: Tree
    identifiers: set[str] = field(default_factory=set)
    """Admitted values that are no sentences: they may be named in texts."""
    withheld: set[str] = field(default_factory=set)
    """Texts of fields that were left out: words of them that stand out may not be quoted in others."""
    values: set[str] = field(default_factory=set)
    """Values of fields that people put private values into: none of them may be quoted in others."""
    cut: list[str] = field(default_factory=list)
    """Names of texts with more values than are taken from one."""


def admitted(tree: Tree, group: str, kind: str) -> Admitted:
    """The part of an object that a bundle may have."""
    result = Admitted({})
    result.tree = _part(tree, _compiled(group, kind), result) or {}
    if kind == core.CUSTOM_RESOURCE_DEFINITION.kind:  # it describes fields of those names
        result.values.clear()
        result.cut.clear()
    return result


def texts(value: Any) -> Iterator[str]:
    """All texts in a tree, and the names in its maps."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


_Allowed = dict[str, Any]
"""Allowed fields below a field; an empty map: its own value, if it is no map."""
_CACHE: dict[tuple[str, str], _Allowed] = {}


def _compiled(group: str, kind: str) -> _Allowed:
    key = (group, kind)
    if key not in _CACHE:
        root: _Allowed = {}
        for path in (*_GENERAL, *ALLOWED.get(key, ())):
            for spelled in _spelled(path):
                node = root
                for name in spelled.split("."):
                    node = node.setdefault(name.removesuffix("[]"), {})
        _CACHE[key] = root
    return _CACHE[key]


def _spelled(path: str) -> Iterable[str]:
    """The paths that alternatives in braces stand for: `a.{b,c}` is `a.b` and `a.c`."""
    before, brace, rest = path.partition("{")
    if not brace:
        return [path]
    names, _, after = rest.partition("}")
    return [before + name + end for name in names.split(",") for end in _spelled(after)]


def _part(value: Any, allowed: _Allowed, result: Admitted, name: str = "") -> Any:
    if isinstance(value, Mapping):
        part = {}
        for field_name, inner in value.items():
            if field_name not in allowed:
                result.withheld.update(texts(inner))
                result.values.update(values.of_field(field_name, inner, result.cut))
            elif (inner_part := _part(inner, allowed[field_name], result, field_name)) is not None:
                part[field_name] = inner_part
        return part or None
    if isinstance(value, list):
        parts = [_part(inner, allowed, result, name) for inner in value]
        return [part for part in parts if part is not None] or None
    if allowed:  # a map is expected
        result.withheld.update(texts(value))
        return None
    if isinstance(value, str) and name not in TEXTS:
        result.identifiers.add(value)
    return value
