"""Where the API server of Gardener 1.150.0 judges an object of a garden otherwise than a garden of ours, and why.

Each case is a change to an object that both accept. A test has both judge it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from espalier.api.meta import Tree

VERSION = "1.150.0"
"""The version of Gardener."""

RELEASED = "earlier releases accepted it, and nothing here needs it"
LATER = "the object may come later; who needs it reports that it is missing"
UNREAD = "nothing here reads it"
OLDER = "the older field goes on working"
UNKNOWN = "it is kept, with a warning"


class Case(NamedTuple):
    """A change to an object, by its kind, and who accepts the result. `change` is a merge patch."""

    kind: str
    what: str
    change: Tree
    here: bool
    gardener: bool
    why: str = ""


def _spec(**fields: Any) -> Tree:
    return {"spec": fields}


def _operation(value: str) -> Tree:
    return {"metadata": {"annotations": {"gardener.cloud/operation": value}}}


def _named(name: str) -> Tree:
    return {"metadata": {"name": name}}


def _pool(**fields: Any) -> Tree:
    machine = {"type": "small", "image": {"name": "local", "version": "1.0.0"}}
    return {
        "spec": {"provider": {"workers": [{"name": "pool", "machine": machine, "minimum": 1, "maximum": 2} | fields]}}
    }


def _machine(type_: str, image: str, version: str) -> Tree:
    return _pool(machine={"type": type_, "image": {"name": image, "version": version}})


def _member(**fields: Any) -> Tree:
    return {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "a", "role": "admin"} | fields


_HA: Tree = {"highAvailability": {"failureTolerance": {"type": "node"}}}
_HOME = "spec.backup.credentialsRef"
_IMAGE: Tree = {"version": "1.0.0", "architectures": ["amd64"], "cri": [{"name": "containerd"}]}

SEEDS = (
    Case("Seed", "`spec.networks` is missing", _spec(networks=None), True, False, RELEASED),
    Case("Seed", "`spec.networks.pods` is missing", _spec(networks={"pods": None}), True, False, RELEASED),
    Case("Seed", "`spec.networks.pods` is no range", _spec(networks={"pods": "ten"}), False, False),
    Case("Seed", "`spec.networks` overlap each other", _spec(networks={"pods": "172.17.0.0/16"}), False, False),
    Case(
        "Seed",
        "`spec.networks.services` is larger than /8",
        _spec(networks={"services": "20.0.0.0/7"}),
        True,
        False,
        UNREAD,
    ),
    Case(
        "Seed",
        "`spec.networks.pods` is a range that Gardener's VPN uses",
        _spec(networks={"pods": "242.0.0.0/8"}),
        True,
        False,
        "there is no VPN here",
    ),
    Case("Seed", "`spec.ingress` is missing", _spec(ingress=None), True, False, RELEASED),
    Case(
        "Seed",
        "`spec.ingress.controller.kind` is not nginx",
        _spec(ingress={"controller": {"kind": "a"}}),
        True,
        False,
        UNREAD,
    ),
    Case("Seed", "`spec.dns` is missing", _spec(dns=None), True, False, RELEASED),
    Case("Seed", "`spec.dns.internal` is missing", _spec(dns={"internal": None}), True, False, RELEASED),
    Case("Seed", "`spec.backup` is missing", _spec(backup=None), True, True),
    Case("Seed", f"`{_HOME}` is missing", _spec(backup={"credentialsRef": None}), True, False, "a folder needs none"),
    Case(
        "Seed",
        f"`{_HOME}` has no `kind`",
        _spec(backup={"credentialsRef": {"kind": None, "apiVersion": None}}),
        True,
        False,
        RELEASED,
    ),
    Case(
        "Seed",
        "`spec.backup.secretRef`",
        _spec(backup={"credentialsRef": None, "secretRef": {"name": "backup-east", "namespace": "garden"}}),
        True,
        False,
        OLDER,
    ),
    Case(
        "Seed", f"`{_HOME}` names a Secret that is missing", _spec(backup={"credentialsRef": {"name": "a"}}), True, True
    ),
    Case("Seed", "`spec.backup.region` is missing", _spec(backup={"region": None}), True, True),
    Case(
        "Seed",
        "`spec.backup.region` is missing, for another provider",
        _spec(backup={"region": None, "provider": "aws"}),
        True,
        False,
        UNREAD,
    ),
    Case(
        "Seed",
        "`spec.backup.providerConfig.url` is no URL",
        _spec(backup={"providerConfig": {"url": "a"}}),
        False,
        True,
        "agents of etcds store by it",
    ),
    Case(
        "Seed", "`spec.provider.type` has no ControllerRegistration", _spec(provider={"type": "a"}), True, False, LATER
    ),
    Case("Seed", "`spec.provider.region` is missing", _spec(provider={"region": None}), True, False, RELEASED),
    Case("Seed", "`metadata.name` has a dot", _named("a.b"), True, False, RELEASED),
    Case("Seed", "an unknown field", _spec(networcs={"a": 1}), True, False, UNKNOWN),
    Case("Seed", "`spec.taints` has a key twice", _spec(taints=[{"key": "a"}] * 2), False, False),
    Case("Seed", "`spec.taints[0].key` is empty", _spec(taints=[{"key": ""}]), False, False),
    Case("Seed", "an unknown operation is requested", _operation("a"), True, False, UNREAD),
    Case(
        "Seed",
        "`spec.settings.topologyAwareRouting` with one zone",
        _spec(settings={"topologyAwareRouting": {"enabled": True}}),
        True,
        False,
        UNREAD,
    ),
)
SHOOTS = (
    Case("Shoot", "`spec.cloudProfile` is missing", _spec(cloudProfile=None), True, False, RELEASED),
    Case(
        "Shoot",
        "`spec.cloudProfileName`, for Kubernetes 1.34 or later",
        _spec(cloudProfile=None, cloudProfileName="local"),
        True,
        False,
        OLDER,
    ),
    Case("Shoot", "`spec.cloudProfileName` beside `spec.cloudProfile`", _spec(cloudProfileName="other"), False, False),
    Case("Shoot", "`spec.cloudProfile.name` is unknown", _spec(cloudProfile={"name": "a"}), False, False),
    Case(
        "Shoot",
        "`spec.cloudProfile.kind` is NamespacedCloudProfile, and there is none",
        _spec(cloudProfile={"kind": "NamespacedCloudProfile"}),
        False,
        False,
    ),
    Case("Shoot", "`spec.provider.type` is not that of the profile", _spec(provider={"type": "aws"}), False, False),
    Case("Shoot", "`spec.region` is not in the profile", _spec(region="there"), False, False),
    Case("Shoot", "`spec.region` is missing", _spec(region=None), False, False),
    Case(
        "Shoot",
        "`spec.kubernetes.version` is not in the profile",
        _spec(kubernetes={"version": "1.33.1"}),
        False,
        False,
    ),
    Case(
        "Shoot",
        "`spec.kubernetes.version` is 1.35: the latest of the profile",
        _spec(kubernetes={"version": "1.35"}),
        False,
        True,
        "no field gets a default here",
    ),
    Case(
        "Shoot",
        "`spec.kubernetes.version` is missing",
        _spec(kubernetes=None),
        True,
        True,
    ),
    Case(
        "Shoot",
        "`spec.secretBindingName`, for Kubernetes 1.34 or later",
        _spec(credentialsBindingName=None, secretBindingName="cloud"),
        True,
        False,
        OLDER,
    ),
    Case(
        "Shoot",
        "neither of `spec.credentialsBindingName` and `secretBindingName`",
        _spec(credentialsBindingName=None),
        True,
        False,
        RELEASED,
    ),
    Case(
        "Shoot",
        "`spec.secretBindingName` beside `spec.credentialsBindingName`",
        _spec(secretBindingName="cloud"),
        False,
        False,
    ),
    Case("Shoot", "`spec.credentialsBindingName` is unknown", _spec(credentialsBindingName="a"), True, False, LATER),
    Case("Shoot", "`spec.networking` is missing", _spec(networking=None), True, False, RELEASED),
    Case("Shoot", "`spec.networking.type` is missing", _spec(networking={"type": None}), True, False, RELEASED),
    Case(
        "Shoot",
        "`spec.networking.type` has no ControllerRegistration",
        _spec(networking={"type": "a"}),
        True,
        False,
        LATER,
    ),
    Case("Shoot", "`spec.networking.pods` is missing", _spec(networking={"pods": None}), True, False, RELEASED),
    Case("Shoot", "`spec.networking.services` is missing", _spec(networking={"services": None}), True, False, RELEASED),
    Case(
        "Shoot", "`spec.networking` overlap each other", _spec(networking={"services": "10.0.128.0/17"}), False, False
    ),
    Case(
        "Shoot",
        "`spec.networking.pods` has bits beside those of the network",
        _spec(networking={"pods": "10.0.0.1/16"}),
        False,
        False,
    ),
    Case(
        "Shoot",
        "`spec.networking.pods` overlaps with the seed's",
        _spec(networking={"pods": "172.16.0.0/20"}),
        False,
        True,
        "Gardener's VPN maps addresses; there is none here",
    ),
    Case(
        "Shoot",
        "`spec.networking.ipFamilies` is IPv6, and the ranges are not",
        _spec(networking={"ipFamilies": ["IPv6"]}),
        True,
        False,
        UNREAD,
    ),
    Case("Shoot", "no workers, with what only workers need", _spec(provider={"workers": []}), True, False, UNREAD),
    Case("Shoot", "a pool has more as minimum than as maximum", _pool(minimum=3), False, False),
    Case("Shoot", "all pools have maximum 0", _pool(minimum=0, maximum=0), False, False),
    Case("Shoot", "a pool's machine type is not in the profile", _machine("huge", "local", "1.0.0"), False, False),
    Case("Shoot", "a pool's image is not in the profile", _machine("small", "a", "1.0.0"), False, False),
    Case(
        "Shoot", "a version of a pool's image is not in the profile", _machine("small", "local", "2.0.0"), False, False
    ),
    Case("Shoot", "a pool has zones that the region has not", _pool(zones=["a"]), True, False, UNREAD),
    Case("Shoot", "a pool's name has 16 characters", _pool(name="a" * 16), False, False),
    Case("Shoot", "a pool's name has capitals", _pool(name="A"), False, False),
    Case("Shoot", "a pool has `maxSurge` 0 and `maxUnavailable` 0", _pool(maxSurge=0, maxUnavailable=0), False, False),
    Case("Shoot", "a pool has `maxSurge` 0, and no `maxUnavailable`", _pool(maxSurge=0), False, False),
    Case("Shoot", "an extension has no ControllerRegistration", _spec(extensions=[{"type": "a"}]), True, False, LATER),
    Case("Shoot", "`spec.seedName` is unknown", _spec(seedName="a"), False, False),
    Case("Shoot", "`spec.seedName` is empty", _spec(seedName=""), True, False, "it is as if it were missing"),
    Case("Shoot", "`metadata.name` has two hyphens in a row", _named("a--b"), False, False),
    Case(
        "Shoot",
        "`metadata.name` and the project have more than 21 characters",
        _named("a" * 19),
        True,
        False,
        "63 characters of the technical ID are the limit",
    ),
    Case("Shoot", "`metadata.name` has a dot", _named("a.b"), True, False, RELEASED),
    Case(
        "Shoot",
        "`metadata.finalizers` of a new Shoot has `gardener`",
        {"metadata": {"finalizers": ["gardener"]}},
        True,
        False,
        "objects of a backup have it",
    ),
    Case("Shoot", "`spec.purpose` is unknown", _spec(purpose="a"), False, False),
    Case("Shoot", "`spec.controlPlane.highAvailability`", _spec(controlPlane=_HA), True, True),
    Case(
        "Shoot",
        "`spec.tolerations` has a key that no project allows",
        _spec(tolerations=[{"key": "a"}]),
        True,
        False,
        "projects have no list of them here",
    ),
    Case(
        "Shoot",
        "`spec.dns.providers[0].secretName`, for Kubernetes 1.35 or later",
        _spec(
            dns={"domain": "a.example.com", "providers": [{"type": "local", "primary": True, "secretName": "cloud"}]}
        ),
        True,
        False,
        OLDER,
    ),
    Case(
        "Shoot",
        "`spec.resources` names a Secret that is missing",
        _spec(resources=[{"name": "a", "resourceRef": {"kind": "Secret", "apiVersion": "v1", "name": "a"}}]),
        True,
        False,
        LATER,
    ),
    Case("Shoot", "an unknown field", _spec(networcing={"a": 1}), True, False, UNKNOWN),
    Case("Shoot", "an unknown operation is requested", _operation("a"), False, False),
    Case(
        "Shoot",
        "the namespace has no Project",
        {"metadata": {"namespace": "garden"}},
        True,
        False,
        "a project follows from the namespace's name",
    ),
)
OTHERS = (
    Case(
        "Project",
        "`metadata.name` has more than 10 characters",
        _named("abcdefghijk"),
        True,
        False,
        "its shoots are refused if a technical ID is too long",
    ),
    Case("Project", "`metadata.name` has two hyphens in a row", _named("a--b"), True, False, "its shoots are refused"),
    Case("Project", "`spec.namespace` does not begin with `garden-`", _spec(namespace="a"), True, False, RELEASED),
    Case(
        "Project",
        "`spec.namespace` is another project's",
        _spec(namespace="garden-dev"),
        True,
        False,
        "the first by name has it",
    ),
    Case("Project", "`spec.description` is empty", _spec(description=""), True, False, UNREAD),
    Case("Project", "`spec.members` has somebody twice", _spec(members=[_member(), _member()]), True, False, UNREAD),
    Case("Project", "`spec.members` has an unknown role", _spec(members=[_member(role="king")]), True, False, UNREAD),
    Case("Project", "`spec.members` has an unknown kind", _spec(members=[_member(kind="Robot")]), True, False, UNREAD),
    Case(
        "CloudProfile", "`spec.kubernetes` is missing", _spec(kubernetes=None), True, False, "it offers every version"
    ),
    Case(
        "CloudProfile",
        "`spec.machineImages` is missing",
        _spec(machineImages=None),
        True,
        False,
        "it offers every image",
    ),
    Case(
        "CloudProfile", "`spec.machineTypes` is missing", _spec(machineTypes=None), True, False, "it offers every type"
    ),
    Case("CloudProfile", "`spec.regions` is missing", _spec(regions=None), True, False, "it offers every region"),
    Case("CloudProfile", "`spec.type` is empty", _spec(type=""), True, False, "no shoot gets it"),
    Case(
        "CloudProfile",
        "a version that is none",
        _spec(kubernetes={"versions": [{"version": "new"}]}),
        True,
        False,
        "no shoot gets it",
    ),
    Case(
        "CloudProfile",
        "a version's classification is unknown",
        _spec(kubernetes={"versions": [{"version": "1.35.4", "classification": "new"}]}),
        True,
        False,
        UNREAD,
    ),
    Case(
        "CloudProfile",
        "the latest version expires",
        _spec(kubernetes={"versions": [{"version": "1.35.4", "expirationDate": "2030-01-01T00:00:00Z"}]}),
        True,
        False,
        UNREAD,
    ),
    Case(
        "CloudProfile",
        "an image has no `updateStrategy`",
        _spec(machineImages=[{"name": "local", "versions": [_IMAGE]}]),
        True,
        True,
    ),
    Case(
        "ControllerRegistration",
        "an unknown kind",
        _spec(resources=[{"kind": "Robot", "type": "a"}]),
        True,
        False,
        UNREAD,
    ),
    Case(
        "ControllerRegistration",
        "a type is empty",
        _spec(resources=[{"kind": "Worker", "type": ""}]),
        True,
        False,
        UNREAD,
    ),
    Case(
        "ControllerRegistration",
        "a kind and type twice",
        _spec(resources=[{"kind": "Worker", "type": "a"}] * 2),
        True,
        False,
        UNREAD,
    ),
    Case(
        "ControllerRegistration",
        "a kind and type that another one has, too",
        _spec(resources=[{"kind": "Worker", "type": "local"}]),
        True,
        False,
        "either one that is installed will do",
    ),
    Case(
        "ControllerRegistration",
        "an unknown `lifecycle`",
        _spec(resources=[{"kind": "Extension", "type": "a", "lifecycle": {"reconcile": "Never"}}]),
        True,
        False,
        UNREAD,
    ),
    Case(
        "ControllerRegistration",
        "`globallyEnabled`",
        _spec(resources=[{"kind": "Extension", "type": "a", "globallyEnabled": True}]),
        True,
        False,
        OLDER,
    ),
    Case(
        "CredentialsBinding",
        "`credentialsRef` names a Secret that is missing",
        {"credentialsRef": {"name": "a"}},
        True,
        False,
        LATER,
    ),
    Case("CredentialsBinding", "`provider` is missing", {"provider": None}, True, False, UNREAD),
    Case(
        "CredentialsBinding",
        "`credentialsRef.kind` is missing",
        {"credentialsRef": {"kind": None}},
        True,
        False,
        "it is a Secret",
    ),
    Case(
        "CredentialsBinding",
        "`credentialsRef.kind` is unknown",
        {"credentialsRef": {"kind": "A"}},
        True,
        False,
        "its shoots report it",
    ),
    Case("BackupBucket", "`spec.provider.region` is missing", _spec(provider={"region": None}), True, False, RELEASED),
    Case(
        "BackupBucket",
        "`spec.credentialsRef` is missing",
        _spec(credentialsRef=None),
        True,
        False,
        "a folder needs none",
    ),
    Case("BackupBucket", "`spec.seedName` is missing", _spec(seedName=None), True, False, RELEASED),
    Case("BackupBucket", "`spec.seedName` is unknown", _spec(seedName="a"), True, False, LATER),
    Case(
        "ShootState",
        "it is not owned by a Shoot",
        {"metadata": {"ownerReferences": None}},
        False,
        True,
        "it would be anybody's",
    ),
    Case(
        "ShootState",
        "data of a secret is not base64",
        {"gardenlet": {"secrets": [{"name": "a", "data": {"a": "%"}}]}},
        False,
        True,
        "nothing could be restored from it",
    ),
)

CASES = (*SEEDS, *SHOOTS, *OTHERS)

UNREAD_FIELDS: Mapping[str, tuple[str, ...]] = {
    "Shoot": (
        "spec.accessRestrictions",
        "spec.addons",
        "spec.controlPlane.zones",
        "spec.dns.providers[].credentialsRef",
        "spec.dns.providers[].domains",
        "spec.dns.providers[].zones",
        "spec.exposureClassName",
        "spec.hibernation.schedules",
        "spec.kubernetes.clusterAutoscaler",
        "spec.kubernetes.etcd",
        "spec.kubernetes.kubeAPIServer",
        "spec.kubernetes.kubeControllerManager",
        "spec.kubernetes.kubeProxy",
        "spec.kubernetes.kubeScheduler",
        "spec.kubernetes.kubelet",
        "spec.kubernetes.verticalPodAutoscaler",
        "spec.maintenance",
        "spec.monitoring",
        "spec.provider.workersSettings",
        "spec.provider.workers[].caBundle",
        "spec.provider.workers[].clusterAutoscaler",
        "spec.provider.workers[].controlPlane",
        "spec.provider.workers[].cri",
        "spec.provider.workers[].dataVolumes",
        "spec.provider.workers[].kubeletDataVolumeName",
        "spec.provider.workers[].kubernetes",
        "spec.provider.workers[].machine.image.providerConfig",
        "spec.provider.workers[].machineControllerManager",
        "spec.provider.workers[].priority",
        "spec.provider.workers[].sysctls",
        "spec.provider.workers[].systemComponents",
        "spec.provider.workers[].updateStrategy",
        "spec.schedulerName",
        "spec.systemComponents",
    ),
    "Seed": (
        "spec.accessRestrictions",
        "spec.dns",
        "spec.extensions",
        "spec.ingress",
        "spec.networks.blockCIDRs",
        "spec.networks.ipFamilies",
        "spec.networks.shootDefaults",
        "spec.resources",
        "spec.settings.dependencyWatchdog",
        "spec.settings.excessCapacityReservation",
        "spec.settings.loadBalancerServices",
        "spec.settings.persistentVolumeClaimAutoscaler",
        "spec.settings.topologyAwareRouting",
        "spec.settings.verticalPodAutoscaler",
        "spec.settings.zoneSelection",
        "spec.volume",
    ),
    "Project": (
        "spec.dualApprovalForDeletion",
        "spec.tolerations",
    ),
    "CloudProfile": (
        "spec.bastion",
        "spec.caBundle",
        "spec.controlPlane",
        "spec.kubernetes.versions[].lifecycle",
        "spec.limits",
        "spec.machineCapabilities",
        "spec.machineImages[].updateStrategy",
        "spec.machineImages[].versions[].architectures",
        "spec.machineImages[].versions[].capabilityFlavors",
        "spec.machineImages[].versions[].cri",
        "spec.machineImages[].versions[].inPlaceUpdates",
        "spec.machineImages[].versions[].kubeletVersionConstraint",
        "spec.machineImages[].versions[].lifecycle",
        "spec.regions[].accessRestrictions",
        "spec.regions[].labels",
    ),
    "BackupBucket": ("spec.shootRef",),
    "BackupEntry": ("spec.shootRef",),
    "ControllerRegistration": (
        "spec.deployment",
        "spec.resources[].autoEnable",
        "spec.resources[].clusterCompatibility",
        "spec.resources[].continuousEndpointUpdate",
        "spec.resources[].reconcileTimeout",
        "spec.resources[].workerlessSupported",
    ),
}
"""Fields that Gardener has and our kinds do not declare, by kind: they are kept, and nothing here reads them."""
