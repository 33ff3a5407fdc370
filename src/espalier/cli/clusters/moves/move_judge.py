"""The state of clusters as a manager of this build judges it, from all objects of a management cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.act.secrets import kubeconfig_copies
from espalier.clusters.design import names
from espalier.clusters.design.drift.drift_policy import Policy
from espalier.clusters.design.drift.gate import Gate
from espalier.clusters.design.provider import Providers
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.rules import releases as rules
from espalier.clusters.observe.scope import Scope
from espalier.moving.objects import Place
from espalier.moving.sides import Inventory
from espalier.runtime.caches.snapshot import Snapshot

BARE_METAL = "TinkerbellDatacenterConfig"
_RELEASES = {(kind.resource.group, kind.resource.kind) for kind in (Bundles, EKSARelease, DistroRelease)}


class ClusterJudge:
    """The judge of a move, with the rules of the Cluster controller."""

    def __init__(self, providers: Providers, *, moves_records: bool = False) -> None:
        """`moves_records`: a management cluster itself may be moved, to and from its bootstrap."""
        self._providers = providers
        self._moves_records = moves_records
        self._observers: dict[int, tuple[Inventory, ClusterObserver, dict[Key, Scope | None]]] = {}

    @property
    def stamps(self) -> frozenset[str]:
        """The annotations with which a manager remembers a cluster."""
        return frozenset(
            {metadata_keys.GATE_ANNOTATION, metadata_keys.IDENTITY_ANNOTATION, metadata_keys.KUBECONFIG_ANNOTATION}
        )

    def named(self, at: Inventory, key: Key) -> Iterable[Place]:
        """The linked objects, and the Secrets and ConfigMaps that their content depends on."""
        scope = self._scope(at, key)
        if scope is None:
            return []
        children = [(resource.group, resource.kind, child.key) for resource, child in scope.children]
        for text in (*scope.credentials, *scope.data):
            kind, _, place = text.partition(" ")
            namespace, _, name = place.rpartition("/")
            children.append(("", kind, Key(namespace, name)))
        return children

    def completing(self, at: Inventory, key: Key) -> Iterable[Place]:
        """The key for digests of credentials, for a cluster with credentials."""
        scope = self._scope(at, key)
        return [("", SECRET.kind, names.GATE_KEY)] if scope is not None and scope.credentials else []

    def management(self, at: Inventory) -> str:
        """The name of the record of the management cluster."""
        key = self._observer(at).management_cluster.key
        return key.name if key is not None else ""

    def context(self, at: Inventory) -> Iterable[Place]:
        """The record of the management cluster with the ConfigMap that names it, the key for digests, and releases."""
        yield "", CONFIG_MAP.kind, names.MANAGEMENT_CLUSTER
        yield "", SECRET.kind, names.GATE_KEY
        record = self._observer(at).management_cluster.key
        if record is not None:
            yield Cluster.resource.group, Cluster.resource.kind, record
        for item in at.items:
            if (item.resource.group, item.resource.kind) in _RELEASES:
                yield item.place

    def is_record(self, at: Inventory, key: Key) -> bool:
        """True if the management cluster's ConfigMap names a Cluster of this key."""
        known = self._observer(at).management_cluster
        return known.is_named and known.is_it(key)

    def is_settled(self, at: Inventory, key: Key) -> bool:
        """True if a Cluster is fully reconciled as it is written."""
        scope = self._scope(at, key)
        return scope is not None and scope.gate in (Gate.CLOSED, Gate.ADOPTED)

    def unsettled(self, source: Inventory, key: Key) -> Iterable[str]:
        """The reasons why a cluster can't be copied now: a change in progress, or what can't be copied at all."""
        scope = self._scope(source, key)
        if scope is None:
            return
        if scope.is_self_managed and not self._moves_records:
            yield f"Cluster {key} is the record of a management cluster: only clusters that it manages are moved"
            return
        if scope.spec.datacenter_ref is not None and scope.spec.datacenter_ref.kind == BARE_METAL:
            yield f"Cluster {key}: spec.datacenterRef.kind: {BARE_METAL}: its Hardware can't be moved yet"
        if scope.is_of_eks_anywhere:
            yield f"Cluster {key} is one of EKS Anywhere: take it over first, with `espalier adopt apply`"
        elif unlabelled := scope.capi_objects.unlabelled:
            yield (
                f"Cluster {key} was taken over from EKS Anywhere, and {len(unlabelled)} of its objects have no labels "
                f"yet ({unlabelled[0]}): set annotation {metadata_keys.DRIFT_ANNOTATION}={Policy.CORRECT}, and wait "
                "until condition Synced is True"
            )
        if scope.gate not in (Gate.CLOSED, Gate.ADOPTED) or not scope.status.ready:
            yield f"Cluster {key} is being changed: wait until condition Ready is True, then give the command again"

    def obstacles(self, source: Inventory, target: Inventory, key: Key) -> Iterable[str]:
        """The reasons at the target: it lacks a record of its own, or the cluster's release."""
        scope = self._scope(source, key)
        if scope is None or (scope.is_self_managed and not self._moves_records):
            return
        there = self._observer(target)
        record = there.management_cluster.record
        if record is None and not (self._moves_records and self.is_record(target, key)):
            yield "the target has no record of a management cluster: apply its Cluster there"
        for violation in rules.skew(scope.spec, scope.release, record):
            yield f"Cluster {key}, at the target: {violation}"
        bundles = there.releases.bundles(scope.spec)
        if bundles is None:
            release = scope.spec.eksa_version or "its bundlesRef"
            yield f"Cluster {key}: release {release} is not known at the target: upgrade espalier there, or the cluster"
        elif scope.release_record and there.releases.content(scope.spec) != scope.release_content:
            yield f"Cluster {key}: its release has other content at the target: install the same release objects there"

    def settled(self, source: Inventory, target: Inventory, key: Key) -> tuple[Mapping[str, str], Tree]:
        """The annotations and status that the manager there would write after a reconcile that changed nothing.

        If somebody has changed the cluster at the source, the content hash stays that of before, and the manager there
        makes the change.
        """
        here, there = self._required(source, key), self._required(target, key)
        is_settled = here.gate in (Gate.CLOSED, Gate.ADOPTED)
        before = here.cluster.metadata.annotations.get(metadata_keys.GATE_ANNOTATION, "")
        annotations = {metadata_keys.GATE_ANNOTATION: there.content_hash if is_settled else before}
        if there.identity:
            annotations[metadata_keys.IDENTITY_ANNOTATION] = there.identity
        content = there.capi_objects.kubeconfig
        if content is not None and metadata_keys.KUBECONFIG_ANNOTATION in there.cluster.metadata.annotations:
            annotations[metadata_keys.KUBECONFIG_ANNOTATION] = kubeconfig_copies.digest_of(there.object, content)
        if not is_settled:
            return annotations, {}
        observed = {
            "observedGeneration": there.generation,
            "childrenObservedGeneration": there.children_generation,
        }
        return annotations, observed

    def _scope(self, at: Inventory, key: Key) -> Scope | None:
        observer = self._observer(at)
        scopes = self._observers[id(at)][2]
        if key not in scopes:
            scopes[key] = observer.scope(key)
        return scopes[key]

    def _required(self, at: Inventory, key: Key) -> Scope:
        scope = self._scope(at, key)
        if scope is None:
            raise LookupError(f"{Cluster.resource.kind} {key}")
        return scope

    def _observer(self, at: Inventory) -> ClusterObserver:
        if id(at) not in self._observers:
            snapshot = Snapshot()
            observer = ClusterObserver(snapshot, providers=self._providers)
            snapshot.fill([*(item.object for item in at.items), *at.definitions])
            self._observers = {id(at): (at, observer, {}), **dict(list(self._observers.items())[:1])}
        return self._observers[id(at)][1]
