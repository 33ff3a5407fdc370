"""The scope of one reconcile: everything it has read, frozen. All decisions are functions of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import msgspec
import semver

from espalier.api.capi import cluster as capi
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineSet
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.releases.release import Bundles, BundlesRef
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.identity import ClusterIdentity
from espalier.api.meta import Tree
from espalier.api.moves import DELETE_FOR_MOVE
from espalier.api.resource import Key, Resource
from espalier.api.text import redaction
from espalier.api.trees import json_trees
from espalier.clusterapi import contract, external_etcd, kubeconfig
from espalier.clusterapi.objects import controller_of
from espalier.clusters.design import cni, names
from espalier.clusters.design.cluster_objects.adoption import Adoption, claim
from espalier.clusters.design.cluster_objects.object_names import ClusterOwnership, Taken
from espalier.clusters.design.drift import gate
from espalier.clusters.design.drift.gate import Gate, Isolation
from espalier.clusters.design.layers import Layer
from espalier.clusters.design.provider import Components, Providers, RenderInput
from espalier.clusters.design.release_objects import release_content
from espalier.clusters.design.render_input import cni_of
from espalier.clusters.observe import git_ops
from espalier.clusters.observe.git_ops import Other
from espalier.clusters.observe.references import GateKey, Missing
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controllers import owners
from espalier.runtime.controllers.outcome import Fault, Outcome, Wait


class ClusterAPIObjects(msgspec.Struct, frozen=True, dict=True):
    """The Cluster API objects made for a cluster, by name, without objects of others."""

    objects: Mapping[Resource, Mapping[str, Object]] = {}
    secrets: tuple[Object, ...] = ()
    """Cluster API's Secrets of the cluster; only the kubeconfig has its data."""
    sets: tuple[Object, ...] = ()
    """The MachineSets of the worker node groups."""
    machines: tuple[Object, ...] = ()
    """The Machines of the control plane."""
    other_machines: tuple[Object, ...] = ()
    """The Machines of workers and of external etcd, reduced to `machine_reports.MachineReport`."""
    taken: tuple[Taken, ...] = ()
    """Objects of others under names that the cluster needs."""
    upgrades: tuple[Object, ...] = ()
    """Upgrades in place of the cluster's control plane and workers."""
    node_upgrades: tuple[Object, ...] = ()
    """Upgrades of its nodes, which decide whether an upgrade can be reverted; the other kinds report their progress."""
    extension: Object | None = None
    """The ExtensionConfig of our runtime hooks for in-place upgrades."""
    adoption: Adoption | None = None
    """The record of a cluster that was taken over from EKS Anywhere."""

    def of(self, resource: Resource) -> Mapping[str, Object]:
        """The objects of a kind, by name."""
        return self.objects.get(resource, {})

    def template(self, kind: str, name: str) -> Object | None:
        """A template of machines or of their bootstrap configuration."""
        return next((objects.get(name) for resource, objects in self.objects.items() if resource.kind == kind), None)

    @property
    def cluster_object(self) -> Object | None:
        """The Cluster of Cluster API, as it was read."""
        return next(iter(self.of(capi.Cluster.resource).values()), None)

    @cached_property
    def cluster(self) -> capi.Cluster | None:
        """The Cluster of Cluster API."""
        return self.cluster_object.decode(capi.Cluster) if self.cluster_object else None

    @property
    def infrastructure(self) -> Object | None:
        """The infrastructure cluster that the Cluster API Cluster references."""
        reference = self.cluster.spec.infrastructure_ref if self.cluster else None
        if reference is None:
            return None
        named = (reference.api_group, reference.kind)
        named_objects = (
            of_kind.get(reference.name)
            for resource, of_kind in self.objects.items()
            if (resource.group, resource.kind) == named
        )
        return next(named_objects, None)

    @cached_property
    def control_plane(self) -> KubeadmControlPlane | None:
        """The control plane."""
        control_plane = next(iter(self.of(KubeadmControlPlane.resource).values()), None)
        return control_plane.decode(KubeadmControlPlane) if control_plane else None

    @cached_property
    def etcd(self) -> EtcdadmCluster | None:
        """External etcd, if the cluster has it."""
        etcd = next(iter(self.of(EtcdadmCluster.resource).values()), None)
        return etcd.decode(EtcdadmCluster) if etcd else None

    @cached_property
    def typed_deployments(self) -> dict[str, MachineDeployment]:
        """The worker node groups."""
        return {
            name: deployment.decode(MachineDeployment)
            for name, deployment in self.of(MachineDeployment.resource).items()
        }

    def sets_of(self, deployment: str) -> list[MachineSet]:
        """The MachineSets of a worker node group."""
        return [
            machine_set.decode(MachineSet) for machine_set in self.sets if _deployment_of(machine_set) == deployment
        ]

    @cached_property
    def kubeconfig(self) -> bytes | None:
        """The kubeconfig of the workload cluster; None while there is none that belongs to this cluster.

        It belongs to it if Cluster API made it for this cluster, or an administrator set the cluster's labels.
        """
        secret, made = self.kubeconfig_secret, self.cluster_object
        if secret is None or made is None:
            return None
        makers = (made, *self.of(KubeadmControlPlane.resource).values())
        meant_for = names.cluster_of(secret.metadata.labels)
        labelled = names.cluster_of(made.metadata.labels)
        owner = self.adoption.key if labelled is None and self.adoption is not None else labelled
        is_ours = meant_for is not None and meant_for == owner
        return (
            kubeconfig.content(secret)
            if is_ours or any(owners.is_owned_by(secret, maker) for maker in makers)
            else None
        )

    @property
    def kubeconfig_secret(self) -> Object | None:
        """The Secret with the name and label of the kubeconfig, whoever made it."""
        return next((secret for secret in self.secrets if kubeconfig.cluster_of(secret) is not None), None)

    @property
    def installed_cni(self) -> str:
        """The content hash of the CNI installed in the workload cluster; empty before the installation. That of EKS
        Anywhere counts as the one that was rendered when the cluster was taken over.
        """
        recorded = self.cluster.metadata.annotations.get(metadata_keys.CNI_ANNOTATION, "") if self.cluster else ""
        return recorded or (self.adoption.cni if self.adoption is not None else "")

    @property
    def unlabelled(self) -> list[str]:
        """The objects that belong to it by the record alone, as `adoption.claim` names them."""
        return [
            claim(resource, name)
            for resource, objects in self.objects.items()
            for name, object_ in objects.items()
            if names.cluster_of(object_.metadata.labels) is None
        ]

    @property
    def has_adopted_cni(self) -> bool:
        """True as long as the CNI is the one that EKS Anywhere installed."""
        is_noted = self.cluster is not None and metadata_keys.CNI_ANNOTATION in self.cluster.metadata.annotations
        return self.adoption is not None and bool(self.adoption.cni) and not is_noted

    @property
    def is_available(self) -> bool:
        """True if the whole control plane has its version and is available."""
        if self.control_plane is None or not contract.is_control_plane_available(self.control_plane):
            return False
        return self.etcd is None or external_etcd.has_endpoints(self.control_plane, self.etcd)


def _deployment_of(set_: Object) -> str:
    """The worker node group of a MachineSet, by its controller; an orphan's by its label."""
    controller = controller_of(set_.metadata)
    is_owned = controller is not None and controller.kind == MachineDeployment.resource.kind
    labelled = set_.metadata.labels.get(contract.DEPLOYMENT_NAME_LABEL, "")
    return controller.name if controller is not None and is_owned else labelled


class Scope(msgspec.Struct, frozen=True, dict=True):
    """A Cluster and what belongs to it at the start of a reconcile; only `capi_objects` is read again during it."""

    object: Object
    cluster: eksa.Cluster
    capi_objects: ClusterAPIObjects
    children: tuple[tuple[Resource, Object], ...] = ()
    """The linked objects that exist."""
    git_ops: tuple[Object, ...] = ()
    """The GitOps configuration that the Cluster names, if it exists. Nothing is rendered from it."""
    other_git_ops: Other | None = None
    """How it differs from that of the management cluster."""
    missing: tuple[Missing, ...] = ()
    """The linked objects that do not exist."""
    grace: float = 0.0
    """Seconds in which these may still come, before anybody is told that they are missing."""
    data: Mapping[str, Mapping[str, bytes]] = {}
    """The data of the ConfigMaps that the linked objects name, by `Kind namespace/name`."""
    credentials: Mapping[str, Mapping[str, bytes]] = {}
    """The data of Secrets, likewise."""
    gate_key: GateKey = GateKey()
    """The key for digests of credentials; empty while there is none."""
    resolved: Mapping[str, str] = {}
    """Values resolved by the provider, by their name; empty values are not known yet."""
    providers: Providers = {}
    """All providers of this manager."""
    management: eksa.Cluster | None = None
    """The Cluster that `spec.managementCluster` names, if it is the record of the management cluster."""
    management_key: Key | None = None
    """The key of the management cluster's record; None if unknown."""
    is_upgraded_record: bool = False
    """True for that record while `espalier upgrade cluster` changes the management cluster."""
    unreadable_status: Tree = msgspec.field(default_factory=dict)
    """Fields of the stored status that can't be read. `cluster` lacks them."""
    manages: tuple[Key, ...] = ()
    """For the record of the management cluster: the Clusters that it manages."""
    managed: tuple[tuple[eksa.Cluster, semver.Version | None], ...] = ()
    """For the record: the valid ones of them, each with its release if known."""
    bundles: Bundles | None = None
    bundles_ref: BundlesRef | None = None
    """The reference to them, of the Cluster or its EKSARelease; None if that does not exist."""
    release: semver.Version | None = None
    """The release of its eksaVersion, or the first release of the Bundles of its bundlesRef."""
    release_content: Mapping[str, str] = {}
    """Digests of the existing release objects from which the cluster is made."""
    known_versions: tuple[str, ...] = ()
    """The eksaVersions of the existing EKSAReleases."""
    older_namesakes: tuple[Key, ...] = ()
    """Older Clusters of the same name in other namespaces."""
    contested: tuple[tuple[str, Key], ...] = ()
    """Names that older Clusters need too, without existing objects."""
    lacks_address: bool = False
    """True if another Cluster has the address of the API server, and the control plane does not exist yet."""
    clashes: tuple[str, ...] = ()
    """Conflicts of its linked objects with another Cluster's, while the control plane does not exist yet."""
    left_over: tuple[Taken, ...] = ()
    """Others' Secrets that Cluster API would use for this cluster; empty before they were read."""
    knows_external_etcd: bool = False
    """True if the installed Cluster API supports external etcd."""
    cluster_api_problem: str = ""
    """The reason why the installed Cluster API is not used; empty if its version is unknown, and if anything of the
    cluster was made already."""
    settling: Wait | None = None
    """The wait of a requested change for its settle time: more of it may follow."""
    is_left_alone: bool = False
    """True to judge what exists as if the Cluster were paused: nothing of a requested change has begun."""
    render_input: RenderInput | None = None
    """None while the components are unknown, or an object that rendering needs is missing."""
    problem: LookupError | None = None
    """The reason why Bundles or EKS Distro Releases give no render input."""
    unusable: str = ""
    """A release object that the manager could not install, or can't read, and the reason."""
    isolation: Isolation = Isolation.LAYERS
    offered: tuple[Layer, ...] = ()
    """The patches available to the cluster that it does not consent to."""
    other_controller: int = 0
    """The replicas of EKS Anywhere's controller here."""
    lost_cni: tuple[str, ...] | None = None
    """The missing objects of the CNI in the workload cluster; None before a comparison."""

    def with_capi_objects(self, capi_objects: ClusterAPIObjects) -> Scope:
        """The same reconcile after writes: the desired state stays that of its start."""
        return msgspec.structs.replace(self, capi_objects=capi_objects)

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Strings that no condition, event or log may contain: secret fields of the Cluster, and the data of
        referenced Secrets.
        """
        data = [value.decode(errors="replace") for content in self.credentials.values() for value in content.values()]
        others = redaction.secrets_of(self.object.metadata.annotations, *({"credential": value} for value in data))
        return _secrets_of_spec(self.object.raw_spec) | others

    def without_secrets(self, outcome: Outcome) -> Outcome:
        """An outcome with secrets redacted from its message."""
        if not isinstance(outcome, Wait | Fault):
            return outcome
        message = redaction.concealed(outcome.message, self.secrets)
        return outcome if message == outcome.message else dataclasses.replace(outcome, message=message)

    @property
    def key(self) -> Key:
        """Namespace and name of the Cluster."""
        return self.object.key

    @property
    def cluster_identity(self) -> ClusterIdentity:
        """The identity of the cluster, for remote clients."""
        made = self.capi_objects.cluster_object
        return ClusterIdentity.of(self.key, made.metadata.uid if made is not None else "")

    @property
    def cluster_ownership(self) -> ClusterOwnership:
        """Decides whether objects belong to this cluster."""
        adopted = self.capi_objects.adoption
        claims = adopted.claims if adopted is not None else frozenset[str]()
        return ClusterOwnership(self.key, self.cluster_identity.uid, claims)

    @property
    def spec(self) -> eksa.ClusterSpec:
        """The spec of the Cluster."""
        return self.cluster.spec

    @property
    def status(self) -> eksa.ClusterStatus:
        """The last reported status."""
        return self.cluster.status

    @property
    def groups(self) -> Sequence[WorkerNodeGroupConfiguration]:
        """The worker node groups as they are rendered; without a render input, as in the spec."""
        return self.render_input.groups if self.render_input is not None else self.spec.worker_node_group_configurations

    @property
    def generation(self) -> int:
        """The generation of the Cluster."""
        return self.cluster.metadata.generation

    @property
    def children_generation(self) -> int:
        """The sum of the linked objects' generations."""
        return sum(child.metadata.generation for child in (*(child for _, child in self.children), *self.git_ops))

    @property
    def is_deleted(self) -> bool:
        """True if the Cluster is being deleted."""
        return self.cluster.metadata.deletion_timestamp is not None

    @property
    def is_paused(self) -> bool:
        """True if the Cluster has the paused annotation, with any value, as in EKS Anywhere, is being moved away, or is
        to be judged so.
        """
        annotations = self.cluster.metadata.annotations
        if self.is_upgraded_record and not self.is_left_alone and DELETE_FOR_MOVE not in annotations:
            return False
        return self.is_left_alone or PAUSED_ANNOTATION in annotations or DELETE_FOR_MOVE in annotations

    @property
    def is_being_written(self) -> bool:
        """True if a command of ours paused the Cluster while it writes a change, or was ended in the middle of it."""
        return names.is_paused_by_command(self.cluster.metadata.annotations) and not self.is_self_managed

    @property
    def was_reconciled(self) -> bool:
        """True if a reconcile has completed before, of this generation or an earlier one."""
        return self.status.observed_generation > 0

    @property
    def is_undecided(self) -> bool:
        """True while a requested change is not judged, because more of it may follow."""
        return not self.is_deleted and (self.settling is not None or (self.is_being_written and self.gate is Gate.OPEN))

    @property
    def is_of_eks_anywhere(self) -> bool:
        """True if EKS Anywhere reconciled the cluster, and nobody has taken it over."""
        return (
            self.status.reconciled_generation > 0
            and metadata_keys.GATE_ANNOTATION not in self.cluster.metadata.annotations
            and (self.capi_objects.cluster_object is not None or bool(self.capi_objects.taken))
        )

    @property
    def has_lost_record(self) -> bool:
        """True if EKS Anywhere made the cluster, it was taken over, and nothing says any more what belongs to it, and
        which fields its machines keep."""
        return (
            self.status.reconciled_generation > 0
            and metadata_keys.GATE_ANNOTATION in self.cluster.metadata.annotations
            and self.capi_objects.adoption is None
            and (self.capi_objects.cluster_object is not None or bool(self.capi_objects.taken))
            and all(conflict.cluster is None for conflict in self.capi_objects.taken)
        )

    @property
    def is_name_taken(self) -> bool:
        """True if objects under the names of the cluster do not belong to it, as far as anything says."""
        return bool(self.capi_objects.taken) or self.has_lost_record

    @property
    def is_self_managed(self) -> bool:
        """True if the cluster is self-managed."""
        return is_self_managed(self.cluster)

    @property
    def is_management(self) -> bool:
        """True if this is the record of the management cluster."""
        return self.is_self_managed and self.management_key == self.key

    @property
    def has_machines(self) -> bool:
        """True if there is a Cluster of Cluster API for it here."""
        return self.capi_objects.cluster_object is not None

    @cached_property
    def replaced_releases(self) -> tuple[str, ...]:
        """Release objects whose content differs from what the cluster was first made from.

        A Cluster without Cluster API objects has none, whatever annotations it was created with.
        """
        if self.capi_objects.cluster_object is None:
            return ()
        return release_content.replaced(
            release_content.recorded(self.cluster.metadata.annotations), self.release_content
        )

    @property
    def release_record(self) -> str:
        """The annotation with the digests of the release objects; empty while they are unknown or replaced."""
        if self.render_input is None or self.replaced_releases:
            return ""
        return release_content.record(self.release_content)

    @cached_property
    def content_hash(self) -> str:
        """The content hash of the desired state."""
        children = [child for _, child in self.children]
        return gate.content_hash(self.object, children, self.data, self.credentials, self.gate_key, self.resolved)

    @cached_property
    def gate(self) -> Gate:
        """The state of the gate: whether the desired state changed since the last complete reconcile."""
        if self.is_made_again or any(missing.field != git_ops.FIELD for missing in self.missing):
            return Gate.OPEN
        recorded = self.cluster.metadata.annotations.get(metadata_keys.GATE_ANNOTATION)
        return gate.state_of(recorded, self.content_hash, generations_match=self._generations_match)

    @property
    def identity(self) -> str:
        """Distinguishes this Cluster from an earlier or other one with the same name and content; empty while
        unknown.
        """
        return f"{self.management.metadata.uid}/{self.cluster.metadata.uid}" if self.management is not None else ""

    @property
    def is_made_again(self) -> bool:
        """True if the Cluster was deleted here and recreated from an export, with the annotations of its predecessor.

        False for one from another management cluster: its machines may be running, and its objects may be restored
        later. Here nothing is left of the predecessor, because the finalizer waited for that.
        """
        recorded = self.cluster.metadata.annotations.get(metadata_keys.IDENTITY_ANNOTATION, "")
        if self.capi_objects.cluster_object is not None or not self.identity:
            return False
        return recorded.partition("/")[0] == self.identity.partition("/")[0] and recorded != self.identity

    @property
    def _generations_match(self) -> bool:
        """True if the generations are the observed ones. Without Cluster API objects nothing was reconciled."""
        return (
            self.capi_objects.cluster_object is not None
            and self.status.observed_generation == self.generation
            and self.status.children_observed_generation == self.children_generation
        )

    @property
    def is_settled(self) -> bool:
        """True if the cluster must not be changed, whatever this manager would render for it.

        Except objects that carry credentials, if `takes_credentials`.
        """
        return self.isolation is not Isolation.OFF and self.gate is not Gate.OPEN

    @property
    def awaited(self) -> tuple[Missing, ...]:
        """The missing objects that block the reconcile. An existing cluster needs no GitOps configuration."""
        return tuple(missing for missing in self.missing if missing.field != git_ops.FIELD or not self.is_settled)

    @property
    def unresolved(self) -> tuple[str, ...]:
        """The values that the provider has not resolved yet: rendering needs them."""
        return tuple(what for what, value in self.resolved.items() if not value)

    @property
    def takes_credentials(self) -> bool:
        """True if only objects that carry credentials are to be written."""
        return self.is_settled and self.gate is Gate.CREDENTIALS

    @property
    def is_restored_without_objects(self) -> bool:
        """True if the cluster existed before, and none of its objects does, as after a restore."""
        recorded = self.cluster.metadata.annotations.get(metadata_keys.GATE_ANNOTATION)
        is_changed = self.isolation is not Isolation.OFF and recorded == gate.CHANGING and not self.is_made_again
        return (self.is_settled or is_changed) and self.capi_objects.cluster_object is None

    @property
    def components(self) -> Components | None:
        """The components of the control plane."""
        return self.render_input.of_control_plane if self.render_input else None

    @cached_property
    def wanted_cni(self) -> str:
        """The value of `capi_objects.installed_cni` once the configured CNI is installed."""
        return cni.content_hash(cni.objects(self.render_input)) if self.render_input else ""

    @property
    def is_cni_due(self) -> bool:
        """True if the CNI is to be installed, or the installed one to be updated."""
        installed = self.capi_objects.installed_cni
        return self.wanted_cni not in ("", installed) and not (installed and self.leaves_cni_alone)

    @property
    def leaves_cni_alone(self) -> bool:
        """True if the CNI is not managed after its installation."""
        return bool(getattr(cni_of(self.spec), "skip_upgrade", False))

    @property
    def compares_cni(self) -> bool:
        """True if the CNI in the workload cluster is compared with what is rendered."""
        return not self.leaves_cni_alone and not self.capi_objects.has_adopted_cni


@lru_cache(maxsize=gate.SPECS)
def _secrets_of_spec(spec: bytes) -> frozenset[str]:
    return redaction.secrets_of(json_trees.decode(spec))


def read(object_: Object) -> eksa.Cluster:
    """A stored Cluster, decoded; fields of its status that can't be read count as absent.

    Raises `msgspec.ValidationError` when the spec is invalid, or nested too deeply.
    """
    return read_with_faults(object_)[0]


def read_with_faults(object_: Object) -> tuple[eksa.Cluster, Tree]:
    """See `read`; with the fields that can't be read, as they are stored.

    They are of a later release, or of EKS Anywhere, whose conditions need no reason.
    """
    json_trees.require_flat(object_.raw)
    try:
        return object_.decode(eksa.Cluster), {}
    except msgspec.ValidationError:
        tree = object_.tree
    status = tree.get("status")
    fields = status if isinstance(status, dict) else {}
    faults = {name: value for name, value in fields.items() if not _is_readable(name, value)}
    return _with_status(tree, {name: value for name, value in fields.items() if name not in faults}), faults


def _is_readable(name: str, value: Any) -> bool:
    try:
        msgspec.json.decode(encode_json({name: value}), type=eksa.ClusterStatus)
    except msgspec.ValidationError:
        return False
    return True


def _with_status(tree: Tree, status: Tree) -> eksa.Cluster:
    # Encoded: `managedFields`, which an API server sends to webhooks, are decoded from bytes alone.
    return msgspec.json.decode(encode_json({**tree, "status": status}), type=eksa.Cluster)


def age(object_: Object) -> tuple[str, str, str]:
    """A sort key by creation: older objects come first; those of the same second by namespace and name."""
    return (object_.metadata.creation_timestamp or "", object_.namespace, object_.name)


def is_self_managed(cluster: eksa.Cluster) -> bool:
    """True if a Cluster names itself or nothing as its management cluster."""
    return cluster.spec.management_cluster.name in ("", cluster.metadata.name)
