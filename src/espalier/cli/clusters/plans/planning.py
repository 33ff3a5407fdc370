"""Plans: the current objects are read once, and previews are computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.manifests.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.violations import Violation
from espalier.cli.clusters import chosen_release, installed_cluster_api, lifecycle
from espalier.cli.clusters.manifests import absent_objects, crd_rules, documents, other_kinds, preflight
from espalier.cli.clusters.plans.plan_text import Planned
from espalier.cli.kit.failures import Failure
from espalier.clusters.design.cluster_objects import runtime_hooks
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.design.provider import Providers
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.scope import is_self_managed, read
from espalier.clusters.preview import reading
from espalier.clusters.preview.previews import Preview, Previews
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, StatusCause
from espalier.kube.objects import Object, to_bytes
from espalier.releases import Releases
from espalier.runtime.caches.snapshot import Snapshot


class PlanRequest:
    """The plans that a command line requests."""

    def __init__(
        self,
        providers: Providers,
        documents_: Sequence[Document],
        eksa_version: str,
        isolation: Isolation,
        releases: Path | None,
        *,
        moves: bool | None = None,
    ) -> None:
        """`moves`: as with `espalier upgrade cluster --move-release` or `--keep-release`; None as with apply."""
        self._providers = providers
        self._documents = documents_
        self._version = eksa_version
        self._isolation = isolation
        self._releases = Releases.load(releases)
        self._moves = moves
        self._notices: tuple[str, ...] = ()
        self._ending: tuple[str, ...] = ()
        self._observed: list[Object] = []
        self._changed: list[Object] = []

    async def of_manifest(self, client: Client, namespace: str) -> list[Planned]:
        """Each Cluster of the manifest with the objects that it links; later Clusters see the earlier ones."""
        trees = [tree for _, tree in documents.in_namespace(self._documents, namespace)]
        ending = await installed_cluster_api.check(client, self._providers, trees)
        self._ending = (*ending, *await _of_absent_namespaces(client, trees))
        others = [tree for tree in trees if tree["kind"] != Cluster.resource.kind]
        clusters = [tree for tree in trees if tree["kind"] == Cluster.resource.kind]
        own = "" if self._moves is None else chosen_release.own_version()
        for tree in clusters:
            self._choose_release(tree["spec"])
        versions = [version for tree in clusters if (version := tree["spec"].get("eksaVersion"))]
        previews = await self._read(client, clusters, [*versions, own] if own else versions)
        planned, given = [], absent_objects.given_by(self._documents, namespace)
        for tree in clusters:
            linked = documents.linked(tree, others, self._providers)
            if own:
                self._upgrade(previews.live(tree), tree, own)
            preview = previews.of_change(_key(tree), [*linked, tree], by_espalier=bool(own))
            refused = preflight.refusals(self._providers, *self._once_more(), tree, others, given)
            planned.append(Planned(_refused(preview, refused)))
            if (changed := previews.live(tree)) is not None:
                self._changed.append(changed)
        return self._noticed(planned)

    def _upgrade(self, existing: Object | None, tree: Tree, own: str) -> None:
        """Set the release that an upgrade would send. Raises the same errors."""
        if existing is None:
            raise lifecycle.absent(_key(tree))
        preflight.check_is_managed(existing)
        moves = bool(self._moves) or not chosen_release.left_behind_by_move(tree, existing, own)
        chosen_release.upgraded(tree, existing, own, moves=moves)

    async def of_release(self, client: Client, namespace: str | None) -> list[Planned]:
        """All clusters, as if they were upgraded to another release."""
        previews, clusters = await self._read_all(client, namespace, [self._version])
        planned = []
        for cluster in clusters:
            tree = cluster.tree
            metadata = {"name": cluster.name, "namespace": cluster.namespace}
            manifest = {**tree, "metadata": metadata, "spec": self._choose_release(tree["spec"])}
            planned.append(Planned(previews.of_change(cluster.key, [manifest])))
        return self._noticed(planned)

    async def of_manager(self, client: Client, namespace: str | None) -> list[Planned]:
        """All clusters, as seen by a manager of this build."""
        previews, clusters = await self._read_all(client, namespace, [], starts=True)
        planned = [
            Planned(previews.as_it_is(cluster.key), previews.at_next_change(cluster.key)) for cluster in clusters
        ]
        return self._noticed(planned)

    async def of_cluster(self, client: Client, key: Key) -> list[Planned]:
        """One cluster as it is, as seen by a manager of this build; nothing if it does not exist any more."""
        previews, objects = await self._snapshot(client, [key], [], None, starts=False)
        if not any(object_.key == key for object_ in objects if object_.kind == Cluster.resource.kind):
            return []
        return self._noticed([Planned(previews.as_it_is(key))])

    def _noticed(self, planned: list[Planned]) -> list[Planned]:
        """Each preview says what could not be read, because its other results depend on that."""
        return [
            previews._replace(now=replace(previews.now, warnings=(*self._notices, *previews.now.warnings)))
            if self._notices
            else previews
            for previews in planned
        ]

    def _choose_release(self, spec: Tree) -> Tree:
        if self._version:
            spec["eksaVersion"] = self._version
            spec["bundlesRef"] = None
        return spec

    async def _read(self, client: Client, clusters: Sequence[Tree], versions: Sequence[str]) -> Previews:
        keys, starts = [_key(tree) for tree in clusters], self._moves is not None
        previews, _ = await self._snapshot(client, keys, versions, None, starts=starts, manifests=clusters)
        return previews

    async def _read_all(
        self, client: Client, namespace: str | None, versions: Sequence[str], *, starts: bool = False
    ) -> tuple[Previews, list[Object]]:
        previews, objects = await self._snapshot(client, None, versions, namespace, starts=starts)
        clusters = [
            object_
            for object_ in objects
            if object_.kind == Cluster.resource.kind and object_.head.api_version == _API_VERSION
        ]
        of_namespace = [cluster for cluster in clusters if namespace in (None, cluster.namespace)]
        return previews, sorted(
            (cluster for cluster in of_namespace if _is_managed(cluster)), key=lambda cluster: cluster.key
        )

    async def _snapshot(
        self,
        client: Client,
        keys: Sequence[Key] | None,
        versions: Sequence[str],
        namespace: str | None,
        *,
        starts: bool,
        manifests: Sequence[Tree] = (),
    ) -> tuple[Previews, list[Object]]:
        """The observed objects; for a manager that `starts`, and for an upgrade, also the releases that these bring."""
        try:
            observed = await reading.read(
                client, keys, versions=versions, namespace=namespace, manifests=manifests, providers=self._providers
            )
        except Forbidden as error:
            raise Failure(f"{error}; {_RIGHTS}") from None
        self._notices = (*self._ending, *observed.notices)
        if manifests and not crd_rules.ASKED:
            self._notices += (f"not checked: {crd_rules.NOT_ASKED}",)
        snapshot = Snapshot()
        self._observed = [*self._brought(observed.objects, starts=starts), *observed.objects]
        front_end = runtime_hooks.chosen(observed.objects)
        observer = ClusterObserver(snapshot, providers=self._providers, isolation=self._isolation, front_end=front_end)
        snapshot.fill(self._observed)
        previews = Previews(
            snapshot,
            observer,
            observed.fleets,
            now=datetime.now(UTC),
            secrets=observed.secrets,
            judge=crd_rules.refusals,
        )
        return previews, observed.objects

    def _once_more(self) -> tuple[Snapshot, ClusterObserver]:
        """The objects that were read, with earlier Clusters as planned, for another judgement: a plan changes its
        snapshot.
        """
        snapshot = Snapshot()
        observer = ClusterObserver(snapshot, providers=self._providers, isolation=self._isolation)
        snapshot.fill(self._observed)
        for cluster in self._changed:
            snapshot.put(cluster)
        return snapshot, observer

    def _brought(self, there: Sequence[Object], *, starts: bool) -> list[Object]:
        """The release objects that a manager installs when it starts; existing ones are never overwritten.

        A management cluster without any EKS Distro Release has a manager that still takes them from its own files: the
        best guess at these are those of this build.
        """
        known = {(object_.kind, object_.name) for object_ in there}
        objects = self._releases.objects() if starts or DistroRelease.resource.kind not in dict(known) else []
        return [
            Object(to_bytes(object_))
            for object_ in objects
            if (object_.kind, object_.metadata.name) not in known and (starts or isinstance(object_, DistroRelease))
        ]


def _refused(preview: Preview, violations: Sequence[Violation]) -> Preview:
    """A preview as it is if nothing is refused; otherwise with all refusals of commands that send a manifest."""
    refusals = list(preview.refusals)
    for violation in violations:
        if not any(documents.is_within(violation.field, known.field) for known in preview.refusals if known.field):
            refusals.append(StatusCause("FieldValueInvalid", violation.sentence, violation.field))
    return Preview(preview.key, preview.asked, tuple(refusals), preview.warnings) if refusals else preview


async def _of_absent_namespaces(client: Client, trees: Sequence[Tree]) -> list[str]:
    """A sentence for each namespace of objects that does not exist."""
    named = {tree["metadata"]["namespace"] for tree in trees if tree["metadata"].get("namespace")}
    return [other_kinds.namespace_needed(name) for name in await other_kinds.absent_namespaces(client, sorted(named))]


_RIGHTS = (
    "`espalier plan` reads all objects of clusters, with the permissions of espalier-admin in examples/roles.yaml. If "
    "you may only write Clusters, use a dry run instead: `kubectl apply --dry-run=server -f FILE`, which needs the "
    "verbs create and patch"
)

_API_VERSION = Cluster.resource.api_version


def _is_managed(cluster: Object) -> bool:
    """True if a manager acts on a Cluster; for one that can't be decoded, it reports that."""
    try:
        return not is_self_managed(read(cluster))
    except msgspec.ValidationError:
        return True


def _key(tree: Tree) -> Key:
    return Key(tree["metadata"]["namespace"], tree["metadata"]["name"])
