"""The plan of a take-over, cluster by cluster and field by field, with what stands against it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.cluster import ClusterStatus
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.api.moves import DELETE_FOR_MOVE
from espalier.api.resource import Key
from espalier.clusterapi import contract, external_etcd
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import adoption, object_names
from espalier.clusters.design.cluster_objects.adoption import Adoption, claim
from espalier.clusters.design.eks_anywhere import CONTROLLER
from espalier.clusters.observe.observe import written
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.scope import Scope, is_self_managed
from espalier.clusters.plan import adopted_machines, drift, workload_objects
from espalier.clusters.report import validity
from espalier.kube import fields as field_sets
from espalier.kube.objects import Object
from espalier.management.adoption.site import OWNERS, Site, related_to
from espalier.runtime.controllers import owners

PAUSED = "true"
"""The pause of the record of a management cluster: no manager acts on its own machines."""


class Outcome(StrEnum):
    """The fate of fields and objects that differ from what we render."""

    STAYS = "stays"
    """It stays, with the machines that are made of it, until a change asks for other machines."""
    NEXT = "next change"
    """It is written with the next change of the cluster; no machine is replaced for it."""


class Row(msgspec.Struct, frozen=True):
    """Fields of an object."""

    object: str
    outcome: Outcome
    fields: tuple[str, ...]


class Managers(msgspec.Struct, frozen=True):
    """The field managers of an object, and how many fields each has."""

    object: str
    fields: Mapping[str, int]


class Block(msgspec.Struct, frozen=True):
    """A reason not to take a cluster over."""

    reason: str
    message: str


class State(StrEnum):
    """How far a cluster is."""

    READY = "ready"
    ADOPTED = "adopted"
    BLOCKED = "blocked"
    OURS = "ours"
    """Our manager made it, or has changed it since it was taken over."""


@dataclass(frozen=True)
class ClusterPlan:
    """The take-over of a cluster."""

    key: Key
    state: State
    provider: str
    kubernetes: str
    release: str
    blocks: tuple[Block, ...] = ()
    notes: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    managers: tuple[Managers, ...] = ()
    record: Adoption | None = None
    """The record to be written; None if it can't be known."""
    object: Object | None = None
    """The Cluster as it was read."""
    owner: Object | None = None
    """Its Cluster of Cluster API."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The annotations to be written on the Cluster."""
    has_credentials: bool = False
    """True if the content hash covers credentials, so that it needs a key."""

    def rows_of(self, outcome: Outcome) -> list[Row]:
        """Its fields with this outcome."""
        return [row for row in self.rows if row.outcome is outcome]


@dataclass(frozen=True)
class SitePlan:
    """The take-over of clusters of a management cluster."""

    clusters: tuple[ClusterPlan, ...]
    blocks: tuple[Block, ...]
    """The reasons not to take over any."""
    steps: tuple[str, ...]
    """Sentences on what is done once, before the clusters."""
    management: Key | None
    """The record of the management cluster."""
    names_management: bool
    """True if the ConfigMap that names it has to be created."""


def plan(site: Site, keys: Sequence[Key] | None = None, *, stops: bool = False) -> SitePlan:
    """The take-over of these Clusters, or of all. `stops`: EKS Anywhere's controller and webhooks are stopped first."""
    management, named, blocks = _management(site)
    if management is not None and named:
        site.snapshot.put(config_map(management))
    chosen = [object_ for object_ in site.clusters if keys is None or object_.key in keys]
    clusters = tuple(_of_cluster(site, object_) for object_ in chosen)
    absent = [key for key in keys or () if key not in {object_.key for object_ in chosen}]
    blocks += [Block("NotFound", f"Cluster {key} does not exist: `espalier adopt plan` lists all") for key in absent]
    if not stops:
        blocks += _of_eks_anywhere(site)
    return SitePlan(clusters, tuple(blocks), tuple(_steps(site, management if named else None)), management, named)


def config_map(management: Key) -> Object:
    """The ConfigMap that names the record of the management cluster."""
    name = names.MANAGEMENT_CLUSTER
    tree = {
        "apiVersion": "v1",
        "kind": CONFIG_MAP.kind,
        "metadata": {"namespace": name.namespace, "name": name.name},
        "data": {"namespace": management.namespace, "name": management.name},
    }
    return Object(msgspec.json.encode(tree))


def _management(site: Site) -> tuple[Key | None, bool, list[Block]]:
    """The record of the management cluster, and whether its name has to be written."""
    known = site.observer.management_cluster
    if known.is_named:
        trouble = [Block("ManagementClusterInvalid", known.trouble)] if known.trouble else []
        return known.key, False, trouble
    own = [object_.key for object_ in site.clusters if _is_record(object_)]
    if len(own) == 1:
        return own[0], True, []
    if not own:
        text = "no Cluster names itself in spec.managementCluster: this is no management cluster of EKS Anywhere"
    else:
        text = (
            f"Clusters {', '.join(map(str, own))} name themselves in spec.managementCluster; say which of them is this "
            "management cluster: `espalier manifests --management-cluster NAMESPACE/NAME` has the ConfigMap"
        )
    return None, False, [Block("ManagementClusterUnknown", text)]


def _is_record(object_: Object) -> bool:
    try:
        return is_self_managed(object_.decode(_Specified))  # type: ignore[arg-type]
    except msgspec.ValidationError:
        return False


class _ManagementRef(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    management_cluster: _ManagementRef = msgspec.field(default_factory=_ManagementRef)


class _Metadata(msgspec.Struct):
    name: str


class _Specified(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


def _of_eks_anywhere(site: Site) -> list[Block]:
    blocks = []
    if site.running:
        blocks.append(
            Block(
                "ControllerRuns",
                f"Deployment {CONTROLLER}: replicas {site.running}, allowed 0: two controllers would write the same "
                "objects; add --stop-controller to `espalier adopt apply`",
            )
        )
    if site.webhooks:
        configured = ", ".join(f"{object_.kind} {object_.name}" for _, object_ in site.webhooks)
        blocks.append(
            Block(
                "WebhooksConfigured",
                f"{configured}: without the controller nobody answers them, and no Cluster can be written; add "
                "--stop-controller to `espalier adopt apply`, which records and deletes them",
            )
        )
    return blocks


def _steps(site: Site, management: Key | None) -> Iterator[str]:
    if site.running:
        yield f"Deployment {CONTROLLER} is scaled from {site.running} to 0"
    for _, object_ in site.webhooks:
        yield f"{object_.kind} {object_.name} is recorded and deleted"
    if site.has_namespaced_releases:
        count = len(site.releases)
        yield (
            f"EKSARelease: the definition is Namespaced, ours is not; it and its {count} objects are recorded, and "
            "replaced with ours, of the same content"
        )
    if management is not None:
        yield f"ConfigMap {names.MANAGEMENT_CLUSTER} is created: it names Cluster {management}"


def _of_cluster(site: Site, object_: Object) -> ClusterPlan:
    scope, error = _scope(site, object_.key)
    if scope is None:
        return ClusterPlan(object_.key, State.BLOCKED, "", "", "", (Block("ClusterUnreadable", error),), object=object_)
    spec = scope.spec
    kind = spec.datacenter_ref.kind if spec.datacenter_ref is not None else ""
    about = (kind.removesuffix("DatacenterConfig"), spec.kubernetes_version, spec.eksa_version or "")
    annotations = object_.metadata.annotations
    made = site.observer.written[capi.Cluster.resource].get(Key(SYSTEM_NAMESPACE, object_.name))
    recorded = scope.capi_objects.adoption
    if scope.is_management and made is None and PAUSED_ANNOTATION in annotations:
        return ClusterPlan(object_.key, State.OURS, *about, object=object_)  # a record, as ours have it
    if metadata_keys.GATE_ANNOTATION not in annotations and recorded is not None and has_changed(scope):
        # Our manager has changed it since: EKS Anywhere has nothing to finish, and the record stays as it is. The mark
        # of the take-over makes the next reconcile one of a change, which compares all of it.
        return ClusterPlan(
            object_.key,
            State.READY,
            *about,
            notes=(_MARKS_REMOVED,),
            record=recorded,
            object=object_,
            owner=made,
            annotations=recorded.written,
        )
    if (
        metadata_keys.GATE_ANNOTATION in annotations
        and made is not None
        and (scope.has_lost_record or (recorded is None and _is_unclaimed(made)))
    ):
        block = Block("RecordLost", messages.record_lost(adoption.config_map(made.name), object_.key))
        return ClusterPlan(object_.key, State.BLOCKED, *about, (block,), object=object_, owner=made)
    if metadata_keys.GATE_ANNOTATION in annotations:
        is_as_written = recorded is not None and recorded.written.items() <= annotations.items()
        state = State.ADOPTED if is_as_written and not has_changed(scope) else State.OURS
        rows, managers = _rows(scope), _managers(site, scope)
        return ClusterPlan(
            object_.key, state, *about, rows=rows, managers=managers, record=recorded, object=object_, owner=made
        )
    blocks = [*_standing(scope), *_foreign(site, scope, made)]
    record, scope = _prospect(site, scope, made)
    blocks += _incomplete(scope)
    if record is None or made is None:
        return ClusterPlan(object_.key, State.BLOCKED, *about, tuple(_unique(blocks)), object=object_, owner=made)
    blocks += [*_unknown(scope), *_machines(scope)]
    written_ = _annotations(scope)
    before = {name: annotations[name] for name in written_ if name in annotations}
    record = msgspec.structs.replace(record, written=written_, before=before)
    state = State.BLOCKED if blocks else State.READY
    return ClusterPlan(
        object_.key,
        state,
        *about,
        tuple(_unique(blocks)),
        tuple(_notes(site, scope)),
        _rows(scope),
        _managers(site, scope),
        record,
        object_,
        made,
        written_,
        has_credentials=bool(scope.credentials),
    )


_MARKS_REMOVED = (
    "it was taken over and changed before, and somebody removed the annotations that say so: they are written again, "
    "and the manager compares the cluster with its spec"
)


def _is_unclaimed(made: Object) -> bool:
    """True for a Cluster of Cluster API that nothing but a record could give to a Cluster."""
    return names.cluster_of(made.metadata.labels) is None


def _unique(blocks: Iterable[Block]) -> list[Block]:
    return list(dict.fromkeys(blocks))


def _scope(site: Site, key: Key) -> tuple[Scope | None, str]:
    try:
        scope = site.observer.scope(key)
    except (msgspec.ValidationError, LookupError, ValueError) as error:
        return None, f"it can't be read: {error}; correct it with EKS Anywhere"
    return scope, f"Cluster {key} does not exist"


def _standing(scope: Scope) -> Iterator[Block]:
    """Things that EKS Anywhere, or somebody, has not finished."""
    metadata, status = scope.cluster.metadata, _status(scope)
    if metadata.deletion_timestamp is not None:
        yield Block("BeingDeleted", "it is being deleted: let EKS Anywhere finish that")
    if MOVE_ANNOTATION in metadata.annotations or DELETE_FOR_MOVE in metadata.annotations:
        yield Block("BeingMoved", "it is being moved: let the move finish, or take it back")
    is_paused = PAUSED_ANNOTATION in metadata.annotations
    if is_paused and not scope.is_self_managed:
        yield Block("Paused", f"it has annotation {PAUSED_ANNOTATION}: remove that, or take the others over")
    if scope.older_namesakes:
        others = ", ".join(map(str, scope.older_namesakes))
        yield Block("ClaimedTwice", f"it has the same objects of Cluster API as Cluster {others}")
    if not scope.is_self_managed and scope.management is None:
        name = scope.spec.management_cluster.name
        yield Block(
            "ManagedElsewhere",
            f"spec.managementCluster.name: found {name}, which is not the management cluster here; take "
            "it over where it is managed",
        )
    ready = next((item for item in _conditions(scope.object) if item.get("type") == "Ready"), None)
    is_ours = ready is not None and ready.get("reason") == Reason.NOT_ADOPTED  # a manager of ours waits for this
    wanted = (scope.generation, scope.children_generation)
    by_theirs = (status.reconciled_generation, status.children_reconciled_generation)
    by_ours = (status.observed_generation, status.children_observed_generation)
    if by_theirs != wanted and not (is_ours and by_ours == wanted):
        yield Block(
            "ChangeInProgress",
            f"status.reconciledGeneration and childrenReconciledGeneration: found {by_theirs[0]} and "
            f"{by_theirs[1]}, generations {wanted[0]} and {wanted[1]}: let EKS Anywhere finish",
        )
    if ready is None or (ready.get("status") != "True" and not is_ours):
        present = "no condition" if ready is None else str(ready.get("status"))
        yield Block("NotReady", f"condition Ready: found {present}: let EKS Anywhere finish, or repair it there")


def _status(scope: Scope) -> ClusterStatus:
    """The status; conditions of EKS Anywhere have another form than ours, the other fields do not."""
    status = scope.object.tree.get("status") or {}
    rest = {
        name: value
        for name, value in status.items()
        if name.endswith(("reconciledGeneration", "ReconciledGeneration", "observedGeneration", "ObservedGeneration"))
    }
    try:
        return msgspec.convert(rest, ClusterStatus)
    except msgspec.ValidationError:
        return ClusterStatus()


def _conditions(object_: Object) -> list[Tree]:
    listed = (object_.tree.get("status") or {}).get("conditions")
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _foreign(site: Site, scope: Scope, made: Object | None) -> Iterator[Block]:
    """Objects that are not there, or belong to others."""
    if made is None:
        where = Key(SYSTEM_NAMESPACE, scope.key.name)
        yield Block(
            "NoClusterAPIObjects",
            f"Cluster.cluster.x-k8s.io {where} does not exist: the cluster is not made, or elsewhere",
        )
        return
    owner = site.observer.adoptions.owner_of(capi.Cluster.resource, made)
    if owner not in (None, scope.key):
        yield Block("ClaimedTwice", f"Cluster.cluster.x-k8s.io {made.key} belongs to Cluster {owner}")


def _incomplete(scope: Scope) -> Iterator[Block]:
    """Why the objects of Cluster API are not those of a settled cluster."""
    capi_objects = scope.capi_objects
    for missing in scope.missing:
        yield Block("LinkedObjectMissing", f"{missing.field}: {missing.what}")
    if scope.problem is not None:
        yield Block("ReleaseUnknown", str(scope.problem))
    elif scope.bundles is None:
        version = scope.spec.eksa_version or "of bundlesRef"
        yield Block("ReleaseUnknown", f"spec.eksaVersion: release {version} has no EKSARelease or Bundles here")
    elif scope.unresolved:
        yield Block("ValuesUnknown", "; ".join(f"{what} is not known yet" for what in scope.unresolved))
    elif scope.render_input is None and not scope.missing:
        yield Block("ProviderUnknown", "spec.datacenterRef.kind: this build does not know the provider")
    for conflict in capi_objects.taken:
        yield Block("ObjectOfAnother", str(conflict))
    cluster = capi_objects.cluster
    if cluster is None:
        return
    if cluster.spec.paused:
        yield Block("ClusterAPIPaused", f"Cluster.cluster.x-k8s.io {cluster.metadata.name}: spec.paused: found true")
    kinds = (capi.Cluster, KubeadmControlPlane, MachineDeployment)
    for resource in (*(kind.resource for kind in kinds), external_etcd.RESOURCE):
        for object_ in capi_objects.of(resource).values():
            if object_.metadata.deletion_timestamp is not None:
                yield Block("BeingDeleted", f"{object_.kind} {object_.key} is being deleted")
            if contract.PAUSED_ANNOTATION in object_.metadata.annotations:
                yield Block(
                    "ClusterAPIPaused", f"{object_.kind} {object_.key} has annotation {contract.PAUSED_ANNOTATION}"
                )
    if not contract.is_control_plane_initialized(cluster) or capi_objects.control_plane is None:
        yield Block("HalfMade", "the control plane is not initialized: let EKS Anywhere finish it")
    for owner in (capi_objects.control_plane, *capi_objects.typed_deployments.values()):
        if owner is None:
            continue
        counts = contract.MachineCounts.of(owner)
        if not contract.is_observed(owner) or counts.outdated or counts.ready != counts.wanted:
            yield Block(
                "RolloutInProgress",
                f"{owner.kind} {owner.metadata.name}: {counts.ready} of {counts.wanted} machines are ready, "
                f"{counts.outdated} outdated: let Cluster API finish",
            )
    for upgrade in (*capi_objects.upgrades, *capi_objects.node_upgrades):
        yield Block("UpgradeInProgress", f"{upgrade.kind} {upgrade.key}: let the upgrade in place finish")


def _prospect(site: Site, scope: Scope, made: Object | None) -> tuple[Adoption | None, Scope]:
    """The record to be written, and the scope as it is with it."""
    if made is None:
        return None, scope
    names_of_owned = tuple(sorted(_claims(site, scope, made)))
    record = Adoption(*scope.key, objects=names_of_owned)
    scope = _with(site, scope, made, record)
    if scope.render_input is None:
        return None, scope
    machines = {}
    for name, wanted in adopted_machines.owners_of_machines(scope.render_input).items():
        present = adopted_machines.live(wanted, scope.capi_objects)
        if present is not None and not present.missing:
            machines[name] = adopted_machines.machines(wanted, present)
    objects = workload_objects.wanted(scope.render_input)
    in_workload = workload_objects.Installed(workload_objects.digest(objects), workload_objects.placed(objects))
    record = msgspec.structs.replace(record, machines=machines, cni=scope.wanted_cni, workload=str(in_workload))
    return record, _with(site, scope, made, record)


def _with(site: Site, scope: Scope, made: Object, record: Adoption) -> Scope:
    site.snapshot.put(Object(msgspec.json.encode(record_tree(record, made))))
    return site.observer.scope(scope.key) or scope


def record_tree(record: Adoption, made: Object) -> Tree:
    """The ConfigMap with a record."""
    return {
        "apiVersion": "v1",
        "kind": CONFIG_MAP.kind,
        "metadata": {
            "namespace": SYSTEM_NAMESPACE,
            "name": adoption.config_map(made.name),
            "labels": {metadata_keys.ADOPTED_LABEL: ""},
            "ownerReferences": [
                msgspec.to_builtins(owners.owner_reference(made, controller=False, block_owner_deletion=False))
            ],
        },
        "data": {adoption.FIELD: adoption.text_of(record)},
    }


def _claims(site: Site, scope: Scope, made: Object) -> Iterator[str]:
    """The objects without our labels that belong to the cluster: under names that it needs, or that its owners of
    machines name, or owned by its Cluster.
    """
    observer = site.observer
    groups, extras = observer.names_of(scope.key, scope.spec)
    related = site.related.get(made.name, ())
    for resource in written(site.providers):
        known = {object_.name for of, object_ in related if of == resource}
        if object_names.is_template(resource):
            known |= {adopted_machines.referenced(owner, resource) for of, owner in related if of in OWNERS} - {""}
        for name in sorted({*object_names.needed(made.name, groups, resource, known, extras), *known}):
            object_ = observer.written[resource].get(Key(SYSTEM_NAMESPACE if resource.namespaced else "", name))
            if object_ is None or names.cluster_of(object_.metadata.labels) is not None:
                continue
            if set(related_to(resource, object_)) <= {made.name}:
                yield claim(resource, name)


def _unknown(scope: Scope) -> Iterator[Block]:
    """Templates that are missing, and fields that we could not keep."""
    if scope.render_input is None:
        return
    for name, wanted in adopted_machines.owners_of_machines(scope.render_input).items():
        present = adopted_machines.live(wanted, scope.capi_objects)
        if present is None:
            yield Block(
                "OwnerMissing", f"{name} does not exist: restore it, or remove what asks for it from the Cluster"
            )
            continue
        for missing in present.missing:
            yield Block("TemplateMissing", f"{name} names {missing}, which does not exist: restore it")
        try:
            for text in adopted_machines.unknown_fields(wanted, present):
                yield Block("FieldsUnknown", f"{text} has fields that this build does not know, and can't keep")
        except msgspec.ValidationError as error:
            yield Block("FieldsUnknown", f"{name} can't be read: {error}")


def _machines(scope: Scope) -> Iterator[Block]:
    """Fields that would replace machines, in spite of the record."""
    for item in _drifts(scope):
        if item.replaces_machines:
            yield Block("MachinesWouldRoll", f"{item.what}: {item.how}: would replace machines")


def _drifts(scope: Scope) -> list[drift.Drift]:
    if scope.render_input is None or scope.capi_objects.cluster is None:
        return []
    return drift.of_capi_objects(scope.render_input, scope.capi_objects, None)


def _annotations(scope: Scope) -> dict[str, str]:
    """The annotations that the manager would write after a reconcile that changed nothing."""
    result = {metadata_keys.GATE_ANNOTATION: scope.content_hash}
    if scope.release_record:
        result[metadata_keys.RELEASE_ANNOTATION] = scope.release_record
    if scope.identity:
        result[metadata_keys.IDENTITY_ANNOTATION] = scope.identity
    if scope.is_self_managed:
        result[PAUSED_ANNOTATION] = PAUSED
    return result


def _notes(site: Site, scope: Scope) -> Iterator[str]:
    problem = validity.problem(scope) if not scope.is_self_managed else None
    if problem is not None:
        yield f"before the next change: {problem.message}"
    packages = sorted(
        {package.namespace for package in site.packages if package.namespace == f"eksa-packages-{scope.key.name}"}
    )
    if packages:
        yield f"curated packages in {', '.join(packages)} are left as they are: nobody reconciles them any more"
    if scope.is_self_managed:
        yield f"the record is paused ({PAUSED_ANNOTATION}): no manager acts on the machines that it runs on"


def _rows(scope: Scope) -> tuple[Row, ...]:
    rows = list(_retained_rows(scope))
    for item in _drifts(scope):
        fields = (item.how,) if item.is_of_object else tuple(item.how.split(", "))
        rows.append(Row(item.what, Outcome.NEXT, fields))
    return tuple(rows)


def _retained_rows(scope: Scope) -> Iterator[Row]:
    """The fields that machines are made of and that we would render otherwise."""
    if scope.render_input is None:
        return
    owners_ = adopted_machines.retained(scope.render_input, scope.capi_objects)
    for name, wanted in adopted_machines.owners_of_machines(scope.render_input).items():
        if name not in owners_:
            continue
        for object_, fields in adopted_machines.differences(wanted, owners_[name]):
            if fields:
                yield Row(f"{object_.kind} {object_.key}", Outcome.STAYS, tuple(fields))


def _managers(site: Site, scope: Scope) -> tuple[Managers, ...]:
    """The field managers of the objects of a cluster, with the number of their fields."""
    result = []
    for resource, objects in scope.capi_objects.objects.items():
        for name, object_ in sorted(objects.items()):
            raw = site.snapshot.get(resource.api_version, resource.kind, object_.key)
            managed = raw.metadata.managed_fields if raw is not None else None
            counts: Counter[str] = Counter()
            for entry, _ in field_sets.entries(bytes(managed)) if managed is not None else ():
                if not entry.subresource:
                    counts[f"{entry.manager} ({entry.operation})"] += _leaves(bytes(entry.fields_v1))
            result.append(Managers(f"{resource.kind} {name}", dict(sorted(counts.items()))))
    return tuple(result)


def _leaves(fields: bytes) -> int:
    def count(below: Mapping[str, Any]) -> int:
        inner = [part for element, part in below.items() if element != field_sets.SELF]
        return sum(map(count, inner)) if inner else 1

    try:
        return count(field_sets.parse(fields))
    except ValueError:
        return 0


_LABELLED_BY_EKS_ANYWHERE = (capi.Cluster.resource, MachineDeployment.resource)


def has_changed(scope: Scope) -> bool:
    """True if the manager has written objects of a cluster since it was taken over: they have our labels then.

    EKS Anywhere writes the same labels on two kinds.
    """
    record = scope.capi_objects.adoption
    return record is not None and any(
        claim(resource, name) in record.claims and names.cluster_of(object_.metadata.labels) is not None
        for resource, objects in scope.capi_objects.objects.items()
        if resource not in _LABELLED_BY_EKS_ANYWHERE
        for name, object_ in objects.items()
    )
