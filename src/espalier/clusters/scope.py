"""What one reconcile knows: everything it has read, frozen. All decisions are functions of this."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
import semver

from espalier.api import json_trees, redaction
from espalier.api.capi import cluster as capi
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineSet
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.group import PAUSED_ANNOTATION
from espalier.api.eksa.release import Bundles
from espalier.api.eksa.workers import WorkerNodeGroupConfiguration
from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key, Resource
from espalier.clusterapi import contract, external_etcd, kubeconfig
from espalier.clusters import cni, gate, git_ops, names, release_content
from espalier.clusters.gate import Gate, Isolation
from espalier.clusters.generated import Belonging, Taken
from espalier.clusters.layers import Layer
from espalier.clusters.provider import Providers
from espalier.clusters.references import GateKey, Missing
from espalier.clusters.render_input import Components, Design, cni_of
from espalier.kube.objects import Object
from espalier.runtime import owners
from espalier.runtime.outcome import Fault, Outcome, Wait


class ClusterAPIObjects(msgspec.Struct, frozen=True, dict=True):
    """The Cluster API objects made for a cluster, by name. Objects of others are not in it."""

    objects: Mapping[Resource, Mapping[str, Object]] = {}
    secrets: tuple[Object, ...] = ()
    """Cluster API's Secrets of the cluster; only that with the kubeconfig has its data."""
    sets: tuple[Object, ...] = ()
    """The MachineSets that Cluster API makes for the worker node groups."""
    machines: tuple[Object, ...] = ()
    """The Machines of the control plane."""
    taken: tuple[Taken, ...] = ()
    """Objects of others under names that the cluster needs."""
    upgrades: tuple[Object, ...] = ()
    node_upgrades: tuple[Object, ...] = ()
    """Those of its nodes, for who asks whether an upgrade can be taken back; what they say, the others say."""
    """Upgrades in place of the cluster's control plane and workers."""
    extension: Object | None = None
    """The ExtensionConfig by which Cluster API asks whether machines can be upgraded in place."""

    def of(self, resource: Resource) -> Mapping[str, Object]:
        """The objects of a kind."""
        return self.objects.get(resource, {})

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
        """What the machines share, as the Cluster of Cluster API names it."""
        reference = self.cluster.spec.infrastructure_ref if self.cluster else None
        if reference is None:
            return None
        named = (reference.api_group, reference.kind)
        found = (of_kind.get(reference.name) for one, of_kind in self.objects.items() if (one.group, one.kind) == named)
        return next(found, None)

    @cached_property
    def control_plane(self) -> KubeadmControlPlane | None:
        """The control plane."""
        found = next(iter(self.of(KubeadmControlPlane.resource).values()), None)
        return found.decode(KubeadmControlPlane) if found else None

    @cached_property
    def etcd(self) -> EtcdadmCluster | None:
        """etcd, if it has machines of its own."""
        found = next(iter(self.of(EtcdadmCluster.resource).values()), None)
        return found.decode(EtcdadmCluster) if found else None

    @cached_property
    def typed_deployments(self) -> dict[str, MachineDeployment]:
        """The worker node groups."""
        return {name: found.decode(MachineDeployment) for name, found in self.of(MachineDeployment.resource).items()}

    def sets_of(self, deployment: str) -> list[MachineSet]:
        """The MachineSets of a worker node group."""
        mine = (one for one in self.sets if one.metadata.labels.get(contract.DEPLOYMENT_NAME_LABEL) == deployment)
        return [one.decode(MachineSet) for one in mine]

    @cached_property
    def kubeconfig(self) -> bytes | None:
        """The kubeconfig of the workload cluster; None while there is none that is this cluster's.

        It is when Cluster API made it for this cluster, or an administrator gave it the cluster's labels.
        """
        found, made = self.kubeconfig_secret, self.cluster_object
        if found is None or made is None:
            return None
        makers = (made, *self.of(KubeadmControlPlane.resource).values())
        meant_for = names.cluster_of(found.metadata.labels)
        is_ours = meant_for is not None and meant_for == names.cluster_of(made.metadata.labels)
        return kubeconfig.content(found) if is_ours or any(owners.is_owned_by(found, one) for one in makers) else None

    @property
    def kubeconfig_secret(self) -> Object | None:
        """The Secret of the name and label of the kubeconfig, whoever made it."""
        return next((secret for secret in self.secrets if kubeconfig.cluster_of(secret) is not None), None)

    @property
    def installed_cni(self) -> str:
        """Which CNI, with what content, the workload cluster was given; empty before."""
        return self.cluster.metadata.annotations.get(names.CNI_ANNOTATION, "") if self.cluster else ""

    @property
    def is_available(self) -> bool:
        """Whether all of the control plane has its version and can be used."""
        if self.control_plane is None or not contract.is_control_plane_available(self.control_plane):
            return False
        return self.etcd is None or external_etcd.is_told(self.control_plane, self.etcd)


class Scope(msgspec.Struct, frozen=True, dict=True):
    """One Cluster and what belongs to it, when a reconcile begins; only `capi_objects` is read again within it."""

    object: Object
    cluster: eksa.Cluster
    capi_objects: ClusterAPIObjects
    children: tuple[tuple[Resource, Object], ...] = ()
    """The linked objects that there are."""
    git_ops: tuple[Object, ...] = ()
    """The configuration of GitOps that the Cluster names, if it is there. Nothing is rendered from it."""
    missing: tuple[Missing, ...] = ()
    """The linked objects that there are not."""
    data: Mapping[str, Mapping[str, bytes]] = {}
    """That of the ConfigMaps that the linked objects name, by `Kind namespace/name`."""
    credentials: Mapping[str, Mapping[str, bytes]] = {}
    """The same of Secrets."""
    gate_key: GateKey = GateKey()
    """The key to digests of credentials; empty while there is none."""
    resolved: Mapping[str, str] = {}
    """What the provider found out elsewhere, by what it is; empty as long as it is not known."""
    providers: Providers = {}
    """Those of this manager."""
    management: eksa.Cluster | None = None
    """The Cluster that `spec.managementCluster` names, if that is the management cluster's."""
    management_key: Key | None = None
    """Where the record of the management cluster is; None when nothing says so."""
    manages: tuple[Key, ...] = ()
    """Of the record of the management cluster: the Clusters that it manages."""
    managed: tuple[tuple[eksa.Cluster, semver.Version | None], ...] = ()
    """Of the record: those of them that can be read, each with its release as far as that is known."""
    bundles: Bundles | None = None
    release: semver.Version | None = None
    """That of its eksaVersion, or the first to which the Bundles of its bundlesRef belong."""
    release_content: Mapping[str, str] = {}
    """Digests of the objects of the release that the cluster is to be made of, as far as they are there."""
    known_versions: tuple[str, ...] = ()
    """The eksaVersions of the EKSAReleases that there are."""
    rivals: tuple[Key, ...] = ()
    """Clusters of the same name elsewhere that were there before."""
    contested: tuple[tuple[str, Key], ...] = ()
    """Names that Clusters need as well that were there before, of which nothing was made yet."""
    left_over: tuple[Taken, ...] = ()
    """Secrets of others that Cluster API would take for this cluster's, once they were looked for."""
    knows_external_etcd: bool = False
    """Whether the Cluster API that is installed makes etcd on machines of its own."""
    is_foreseen: bool = False
    """Whether this is a preview: what time alone brings counts as there."""
    design: Design | None = None
    """None while the components are not known, or something is missing of which objects are rendered."""
    problem: LookupError | None = None
    """Why there is no design, as far as Bundles and what they name tell."""
    uninstalled: str = ""
    """What is missing because the manager could not install it, and why."""
    isolation: Isolation = Isolation.LAYERS
    offered: tuple[Layer, ...] = ()
    """The patches that the cluster could have and does not consent to."""
    lost_cni: tuple[str, ...] | None = None
    """What the workload cluster was seen to have lost of its CNI; None as long as it was not looked at."""

    def with_capi_objects(self, capi_objects: ClusterAPIObjects) -> Scope:
        """The same reconcile, after writes: what is asked for stays as it was at the beginning."""
        return msgspec.structs.replace(self, capi_objects=capi_objects)

    @cached_property
    def secrets(self) -> frozenset[str]:
        """What no condition, event or log may quote: secret fields of the Cluster, and the data of named Secrets."""
        data = [value.decode(errors="replace") for one in self.credentials.values() for value in one.values()]
        tree = self.object.tree
        marks = tree["metadata"].get("annotations")
        return redaction.secrets_of(tree.get("spec"), marks, *({"credential": one} for one in data))

    def told(self, outcome: Outcome) -> Outcome:
        """An outcome whose sentence quotes no secret."""
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
        """Which cluster it is, for all that reaches it."""
        made = self.capi_objects.cluster_object
        return ClusterIdentity.of(self.key, made.metadata.uid if made is not None else "")

    @property
    def belonging(self) -> Belonging:
        """Judges whether objects are this cluster's."""
        return Belonging(self.key, self.cluster_identity.uid)

    @property
    def spec(self) -> eksa.ClusterSpec:
        """What is asked for."""
        return self.cluster.spec

    @property
    def status(self) -> eksa.ClusterStatus:
        """What was last reported."""
        return self.cluster.status

    @property
    def groups(self) -> Sequence[WorkerNodeGroupConfiguration]:
        """The worker node groups, as there are objects of them; as they are asked for while that is not known."""
        return self.design.groups if self.design is not None else self.spec.worker_node_group_configurations

    @property
    def generation(self) -> int:
        """Of the Cluster."""
        return self.cluster.metadata.generation

    @property
    def children_generation(self) -> int:
        """The sum over the linked objects."""
        return sum(child.metadata.generation for child in (*(child for _, child in self.children), *self.git_ops))

    @property
    def is_deleted(self) -> bool:
        """Whether deletion was asked for."""
        return self.cluster.metadata.deletion_timestamp is not None

    @property
    def is_paused(self) -> bool:
        """Whether the annotation asks to leave the cluster alone; its value does not matter, as in EKS Anywhere."""
        return PAUSED_ANNOTATION in self.cluster.metadata.annotations

    @property
    def is_self_managed(self) -> bool:
        """Whether the cluster manages itself."""
        return is_self_managed(self.cluster)

    @property
    def is_management(self) -> bool:
        """Whether this is the record of the management cluster."""
        return self.is_self_managed and self.management_key == self.key

    @cached_property
    def replaced_releases(self) -> tuple[str, ...]:
        """Objects of the release that have other content than when the cluster was first made of them.

        A Cluster of which nothing was made has none, whatever an export that it was made from says.
        """
        if self.capi_objects.cluster_object is None:
            return ()
        return release_content.replaced(
            release_content.recorded(self.cluster.metadata.annotations), self.release_content
        )

    @property
    def release_record(self) -> str:
        """The annotation that tells what the cluster is made of; empty while that is not known, or in question."""
        if self.design is None or self.replaced_releases:
            return ""
        return release_content.record(self.release_content)

    @cached_property
    def content_hash(self) -> str:
        """The content hash of what is asked for."""
        children = [child for _, child in self.children]
        return gate.content_hash(self.object, children, self.data, self.credentials, self.gate_key, self.resolved)

    @cached_property
    def gate(self) -> Gate:
        """Whether anything was asked for since the last reconcile that went to its end."""
        if self.is_made_again or any(one.field != git_ops.FIELD for one in self.missing):
            return Gate.OPEN
        found = self.cluster.metadata.annotations.get(names.GATE_ANNOTATION)
        return gate.stand(found, self.content_hash, generations_match=self._generations_match)

    @property
    def identity(self) -> str:
        """What tells this Cluster from one of its name and content, before it or elsewhere; empty while not known."""
        return f"{self.management.metadata.uid}/{self.cluster.metadata.uid}" if self.management is not None else ""

    @property
    def is_made_again(self) -> bool:
        """Whether the Cluster was deleted here and made again from an export: its annotations tell of the one before.

        One that comes from another management cluster is not: its machines may be running, and its objects be restored
        after it. Here nothing is left of the one before, or the finalizer would have held it.
        """
        said = self.cluster.metadata.annotations.get(names.IDENTITY_ANNOTATION, "")
        if self.capi_objects.cluster_object is not None or not self.identity:
            return False
        return said.partition("/")[0] == self.identity.partition("/")[0] and said != self.identity

    @property
    def _generations_match(self) -> bool:
        """Whether generations say that nothing was asked for. Without Cluster API objects nothing was done."""
        return (
            self.capi_objects.cluster_object is not None
            and self.status.observed_generation == self.generation
            and self.status.children_observed_generation == self.children_generation
        )

    @property
    def is_settled(self) -> bool:
        """Whether the cluster is to be left alone, whatever this manager would render for it.

        But for what carries credentials, if `takes_credentials`.
        """
        return self.isolation is not Isolation.OFF and self.gate is not Gate.OPEN

    @property
    def awaited(self) -> tuple[Missing, ...]:
        """The missing objects without which nothing goes on. A cluster that was made needs none to describe it."""
        return tuple(one for one in self.missing if one.field != git_ops.FIELD or not self.is_settled)

    @property
    def unresolved(self) -> tuple[str, ...]:
        """What the provider has not found out yet: without it nothing can be rendered."""
        return tuple(what for what, value in self.resolved.items() if not value)

    @property
    def takes_credentials(self) -> bool:
        """Whether what carries credentials is to be written, and nothing else."""
        return self.is_settled and self.gate is Gate.CREDENTIALS

    @property
    def is_restored_without_objects(self) -> bool:
        """Whether the cluster was reconciled to its end, but none of its objects is there, as after a restore."""
        return self.is_settled and self.capi_objects.cluster_object is None

    @property
    def components(self) -> Components | None:
        """The components of the control plane."""
        return self.design.of_control_plane if self.design else None

    @cached_property
    def wanted_cni(self) -> str:
        """`capi_objects.installed_cni` once the workload cluster has the CNI that is asked for."""
        return cni.content_hash(cni.objects(self.design)) if self.design else ""

    @property
    def leaves_cni_alone(self) -> bool:
        """Whether the CNI is not touched after the first installation."""
        return bool(getattr(cni_of(self.spec), "skip_upgrade", False))


def read(found: Object) -> eksa.Cluster:
    """A Cluster as it is stored. A status in another shape (EKS Anywhere's conditions need no reason) counts as none.

    Raises `msgspec.ValidationError` when the spec is not one, or is nested deeper than anybody follows it.
    """
    json_trees.require_flat(found.raw)
    try:
        return found.decode(eksa.Cluster)
    except msgspec.ValidationError:
        return msgspec.convert({**found.tree, "status": {}}, eksa.Cluster)


def is_self_managed(cluster: eksa.Cluster) -> bool:
    """Whether a Cluster manages itself: it names itself, or nobody, as its management cluster."""
    return cluster.spec.management_cluster.name in ("", cluster.metadata.name)
