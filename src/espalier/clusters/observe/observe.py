"""All reads of a reconcile: from caches, into a frozen `Scope`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import semver

from espalier.api.capi import addons
from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineHealthCheck, MachineSet
from espalier.api.capi.runtime import ExtensionConfig
from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.releases.release import Bundles
from espalier.api.eksa.upgrades import (
    RUNTIME_EXTENSION,
    ControlPlaneUpgrade,
    FrontEnd,
    MachineDeploymentUpgrade,
    NodeUpgrade,
)
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key, Resource
from espalier.clusterapi import contract, external_etcd, installed, kubeconfig
from espalier.clusterapi import labels as capi_labels
from espalier.clusterapi.infrastructures.infrastructure import GROUP
from espalier.clusters.design import eks_anywhere, names
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.design.cluster_objects.object_names import ClusterOwnership, Taken
from espalier.clusters.design.drift import ownership
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.design.layers import LAYERS, Layer, chosen, offered
from espalier.clusters.design.provider import Name, Providers, RenderInput, extra_kinds, infrastructures
from espalier.clusters.design.release_objects.release_objects import ReleaseObjects
from espalier.clusters.design.render_input import make_render_input
from espalier.clusters.observe.adoptions import Adoptions
from espalier.clusters.observe.cached.own_fields import of_share, with_our_content, with_our_fields
from espalier.clusters.observe.cached.render_inputs import RenderInputs
from espalier.clusters.observe.git_ops import GitOpsObjects
from espalier.clusters.observe.machines.machine_reports import reduced_unless_control_plane
from espalier.clusters.observe.management import ManagementCluster
from espalier.clusters.observe.reference_grace import ReferenceGrace
from espalier.clusters.observe.references import Linked, LinkedObjects, Missing, missing_kind, references
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.clusters.observe.rules.releases import parsed
from espalier.clusters.observe.scope import ClusterAPIObjects, Scope, age, is_self_managed, read, read_with_faults
from espalier.clusters.observe.uses.release_use import ReleaseUse
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.releases import Uninstalled
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.caches.mapping import by_controller
from espalier.runtime.controllers.own_writes import OwnWrites
from espalier.runtime.controllers.writer import Writer
from espalier.runtime.options import Options

BY_CLUSTER = "cluster"
BY_NAME = "name"
BY_LINK = "link"
BY_GIT_OPS = "git-ops"
"""The value of `BY_LINK` for Clusters with a GitOps configuration."""
BY_SERIES = "series"
BY_ADDRESS = "address"
BY_CONTROLLER = "controller"


def written(providers: Providers) -> tuple[Resource, ...]:
    """Kinds of the objects made for clusters: Cluster API's, its infrastructure providers', and extra ones."""
    known = infrastructures(providers).all
    return (
        capi.Cluster.resource,
        *(infrastructure.cluster for infrastructure in known),
        KubeadmControlPlane.resource,
        MachineDeployment.resource,
        *(infrastructure.machine_template for infrastructure in known),
        KubeadmConfigTemplate.resource,
        MachineHealthCheck.resource,
        external_etcd.RESOURCE,
        *extra_kinds(providers),
    )


def may_be_absent(providers: Providers) -> frozenset[Resource]:
    """The kinds that a management cluster may lack: those of etcdadm, and of providers that are not installed."""
    kinds = {external_etcd.RESOURCE}
    for provider in providers.values():
        own = (kind for kind in provider.extras.kinds if kind.group in (GROUP, addons.GROUP))
        kinds |= {provider.infrastructure.cluster, provider.infrastructure.machine_template, *own}
    return frozenset(kinds)


def followed(front_end: FrontEnd) -> tuple[Resource, ...]:
    """Kinds that report the progress of in-place upgrades."""
    kinds = (ControlPlaneUpgrade.resource, MachineDeploymentUpgrade.resource, NodeUpgrade.resource)
    return (*kinds, ExtensionConfig.resource) if front_end is FrontEnd.HOOKS else kinds


class ClusterObserver:
    """The caches of all objects that a cluster depends on."""

    def __init__(
        self,
        caches: Caches,
        options: Options | None = None,
        *,
        providers: Providers,
        isolation: Isolation = Isolation.LAYERS,
        layers: Sequence[Layer] = LAYERS,
        front_end: FrontEnd = FrontEnd.ANNOTATIONS,
        uninstalled: Uninstalled | None = None,
        grace: ReferenceGrace | None = None,
    ) -> None:
        self.providers = providers
        self._isolation = isolation
        self._grace = grace
        self._layers = layers
        self._options = options or Options()
        self._front_end = front_end
        self._render_inputs = RenderInputs()
        # Clusters, by all that makes one concern another.
        indexes = {BY_NAME: _by_name, BY_LINK: _by_link, BY_SERIES: self._by_series, BY_ADDRESS: _by_address}
        self.clusters = caches.of(eksa.Cluster.resource, sharded=True, indexes=indexes)
        # Names are unique in all namespaces. Clusters in unwatched namespaces are known by their Cluster API objects.
        self.all_clusters = caches.of(eksa.Cluster.resource, indexes=indexes)
        self.management_cluster = ManagementCluster(caches, self.all_clusters)
        # What they name: linked objects, GitOps configurations and releases.
        self.linked = LinkedObjects(caches, providers)
        self.git_ops = GitOpsObjects(caches)
        self.releases = ReleaseObjects(caches, uninstalled)
        of_controller = f"metadata.name={eks_anywhere.CONTROLLER.name}"
        self.eks_anywhere = caches.of(DEPLOYMENT, eks_anywhere.CONTROLLER.namespace, fields=of_controller)
        self.release_use = ReleaseUse(self.all_clusters, self.releases)
        # What this manager writes. Caches have only what it owns of each object, as only that is compared.
        optional = may_be_absent(providers)
        self.written: dict[Resource, Cache] = {
            resource: caches.of(
                resource,
                SYSTEM_NAMESPACE if resource.namespaced else None,
                optional=resource in optional,
                indexes={BY_CLUSTER: _by_cluster},
                transform=of_share(
                    with_our_content if resource in (SECRET, CONFIG_MAP) else with_our_fields, self._options
                ),
            )
            for resource in written(providers)
        }
        self.adoptions = Adoptions(caches)
        self.extra_kinds = frozenset(extra_kinds(providers))
        # What reports on machines and on their upgrades in place.
        uses_hooks = front_end is FrontEnd.HOOKS
        kinds = (ControlPlaneUpgrade, MachineDeploymentUpgrade, *((NodeUpgrade,) if uses_hooks else ()))
        by_cluster = {BY_NAME: _by_cluster_name, BY_CONTROLLER: by_controller}
        self.upgrades = [caches.of(kind.resource, SYSTEM_NAMESPACE, indexes=by_cluster) for kind in kinds]
        self.node_upgrades = caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE, indexes=by_cluster)
        named = f"metadata.name={RUNTIME_EXTENSION}"
        self.extension = caches.of(ExtensionConfig.resource, fields=named) if uses_hooks else None
        # The same cache as that of the Secrets that this manager writes.
        by_name = {BY_NAME: _by_cluster_name}
        self.secrets = caches.of(
            SECRET, SYSTEM_NAMESPACE, indexes=by_name, transform=of_share(with_our_content, self._options)
        )
        # By their spec: somebody may have edited their labels.
        self.sets = caches.of(MachineSet.resource, SYSTEM_NAMESPACE, indexes={BY_NAME: _by_spec})
        self.machines = caches.of(
            Machine.resource, SYSTEM_NAMESPACE, indexes={BY_NAME: _by_spec}, transform=reduced_unless_control_plane
        )
        self.cluster_definition = caches.of(
            CUSTOM_RESOURCE_DEFINITION,
            fields=f"metadata.name={external_etcd.CLUSTER_DEFINITION}",
            transform=external_etcd.reduced_to_support,
        )
        self.cluster_api = caches.of(
            DEPLOYMENT,
            installed.NAMESPACE,
            fields=f"metadata.name={installed.DEPLOYMENT_NAME}",
            may_be_forbidden=True,
        )
        self.own_writes = OwnWrites()
        self.excluded: set[Key] = set()
        """The Clusters that linked objects of another one excluded at their last reconcile. A Cluster that was not
        reconciled yet, as after a restart, is in the queue anyway."""

    def writer(self, client: Client) -> Writer:
        """A writer whose writes show in these caches at once."""
        caches = {eksa.Cluster.resource: self.clusters, **self.linked.caches, **self.written}
        return Writer(client, caches, names.FIELD_MANAGER, {eksa.Cluster.resource: self.own_writes})

    @property
    def knows_external_etcd(self) -> bool:
        """True if the installed Cluster API supports external etcd, as EKS Anywhere's build does."""
        return external_etcd.is_supported(self.cluster_definition.get(Key("", external_etcd.CLUSTER_DEFINITION)))

    def scope(self, key: Key) -> Scope | None:
        """The scope of one Cluster; None when it does not exist."""
        cluster = self.clusters.get(key)
        scope = self.scope_of(cluster) if cluster is not None else None
        if scope is not None and scope.render_input is not None:
            scope = msgspec.structs.replace(scope, render_input=self._render_inputs.shared(scope.render_input))
        if self._grace is not None and scope is not None and (left := self._grace.left(scope)):
            scope = msgspec.structs.replace(scope, grace=left)
        if scope is not None and scope.clashes:
            self.excluded.add(key)
        else:
            self.excluded.discard(key)
        return scope

    def forget(self, key: Key) -> None:
        """Drop what was remembered of a Cluster that does not exist any more: another one may get its name."""
        self.linked.forget(key)
        self._render_inputs.forget(key)
        self.excluded.discard(key)
        if self._grace is not None:
            self._grace.forget(key)

    def scope_of(self, object_: Object) -> Scope:
        """The scope of a Cluster that may not be stored yet."""
        key, (cluster, faults) = object_.key, read_with_faults(object_)
        bundles = self.releases.bundles(cluster.spec)
        linked = self.linked.of(cluster)
        made, problem = self._render_input(cluster, bundles, linked)
        management = self.management(cluster)
        git_ops, without = self.git_ops.of(cluster, management)
        is_record = is_self_managed(cluster) and self.management_cluster.is_it(key)
        capi_objects = self.capi_objects(key, cluster.spec)
        return Scope(
            object=object_,
            cluster=cluster,
            capi_objects=capi_objects,
            children=linked.children,
            git_ops=git_ops,
            other_git_ops=self.git_ops.other(cluster, management),
            missing=(*self._kinds_missing(cluster), *linked.missing, *without),
            data=linked.data,
            credentials=linked.credentials,
            gate_key=linked.key,
            resolved=linked.resolved,
            providers=self.providers,
            management=management,
            management_key=self.management_cluster.key,
            unreadable_status=faults,
            is_upgraded_record=is_record and self.management_cluster.is_upgrading,
            manages=tuple(other.key for other in self.management_cluster.managed()) if is_record else (),
            managed=tuple((other, self.release_of(other)) for other in self.managed()) if is_record else (),
            bundles=bundles,
            bundles_ref=self.releases.reference(cluster.spec),
            release=self.release_of(cluster),
            release_content=self.releases.content(cluster.spec),
            known_versions=self.releases.versions(),
            older_namesakes=self._older_namesakes(object_),
            contested=self._contested(object_, cluster, capi_objects),
            lacks_address=self._lacks_address(object_, cluster, capi_objects),
            clashes=tuple(self._clashes(object_, cluster, capi_objects, linked.children)),
            render_input=made,
            problem=problem,
            knows_external_etcd=self.knows_external_etcd,
            cluster_api_problem=self._cluster_api_problem(capi_objects),
            unusable=self.releases.unusable(cluster.spec),
            isolation=self._isolation,
            other_controller=self._other_controller(),
            offered=self.offered_to(cluster),
        )

    def _cluster_api_problem(self, capi_objects: ClusterAPIObjects) -> str:
        """The reason why nothing is begun with the installed Cluster API; empty for a cluster that has begun."""
        if any(capi_objects.objects.values()):
            return ""
        version = installed.version_of(deployment.tree for deployment in self.cluster_api.list())
        return "; ".join(installed.problems(version, ()))

    def _other_controller(self) -> int:
        controller = self.eks_anywhere.get(eks_anywhere.CONTROLLER)
        return eks_anywhere.replicas(controller) if controller is not None else 0

    def _kinds_missing(self, cluster: eksa.Cluster) -> Iterator[Missing]:
        """The provider of a cluster, if its kinds are not installed in the management cluster."""
        provider = self.providers.get(cluster.spec.datacenter_ref.kind) if cluster.spec.datacenter_ref else None
        kind = provider.infrastructure.cluster if provider is not None else None
        if kind is not None and self.written[kind].is_absent:
            yield missing_kind(kind)

    def _render_input(
        self, cluster: eksa.Cluster, bundles: Bundles | None, linked: Linked
    ) -> tuple[RenderInput | None, LookupError | None]:
        """The render input, or the reason why there is none."""
        key, spec = Key(cluster.metadata.namespace, cluster.metadata.name), cluster.spec
        provider = self.providers.get(spec.datacenter_ref.kind) if spec.datacenter_ref else None
        if bundles is None or provider is None or not linked.suffices(provider.links):
            return None, None
        if not all(linked.resolved.values()):
            return None, None
        try:
            watch_filter, layers = self._options.watch_filter, self.layers_of(cluster)
            made = make_render_input(
                key,
                spec,
                bundles,
                self.releases.distro,
                provider,
                watch_filter=watch_filter,
                layers=layers,
                front_end=self._front_end,
                children=tuple(child for _, child in linked.children),
                data={**linked.data, **linked.credentials},
                resolved=linked.resolved,
            )
            return made, None
        except LookupError as unknown:
            return None, unknown

    def layers_of(self, cluster: eksa.Cluster) -> tuple[Layer, ...]:
        """The layers that render a cluster: those of its release, or all without `Isolation.LAYERS`."""
        if self._isolation is not Isolation.LAYERS:
            return tuple(self._layers)
        consents = names.consents(cluster.metadata.annotations)
        return chosen(self._layers, self.releases.version(cluster.spec), consents)

    def release_of(self, cluster: eksa.Cluster) -> semver.Version | None:
        """The release that a Cluster names, or the first release of the Bundles that it names."""
        spec = cluster.spec
        return parsed(spec.eksa_version) if spec.bundles_ref is None else self.releases.version(spec)

    @property
    def patches(self) -> tuple[str, ...]:
        """Names of this manager's patches."""
        return tuple(layer.name for layer in self._layers if layer.is_patch)

    def offered_to(self, cluster: eksa.Cluster) -> tuple[Layer, ...]:
        """The patches available to a cluster that it does not consent to."""
        if self._isolation is not Isolation.LAYERS:
            return ()
        consents = names.consents(cluster.metadata.annotations)
        return offered(self._layers, self.releases.version(cluster.spec), consents)

    def capi_objects(self, key: Key, spec: eksa.ClusterSpec) -> ClusterAPIObjects:
        """The Cluster API objects of a cluster as of now, and objects of others under names that it needs."""
        groups, extras = self.names_of(key, spec)
        cluster = ClusterIdentity.of(key)
        made = self.written[capi.Cluster.resource].get(cluster.capi)
        adopted = self.adoptions.of(key, made)
        owner = names.cluster_of(made.metadata.labels) if made is not None else None
        is_ours = made is not None and (owner == key or (owner is None and adopted is not None))
        claims = adopted.claims if adopted is not None else frozenset[str]()
        cluster_ownership = ClusterOwnership(key, made.metadata.uid if made is not None and is_ours else "", claims)
        by_kind: dict[Resource, dict[str, Object]] = {}
        taken: list[Taken] = []
        for resource, cache in self.written.items():
            if not cache:  # as those of most providers
                by_kind[resource] = {}
                continue
            labelled = cache.by_index(BY_CLUSTER, str(key))
            if resource in self.extra_kinds:  # users label Secrets with a cluster's name too
                labelled = [object_ for object_ in labelled if ownership.owned_fields(object_) is not None]
            by_kind[resource] = ours = {
                object_.name: object_ for object_ in labelled if not cluster_ownership(resource, object_)
            }
            claimed = adopted.names(resource.kind) if adopted is not None else ()
            for name in dict.fromkeys(
                [*object_names.needed(key.name, groups, resource, {*ours, *claimed}, extras), *claimed]
            ):
                object_ = cache.get(cluster.key(name) if resource.namespaced else Key("", name))
                if object_ is None or name in ours:
                    continue
                if holder := cluster_ownership(resource, object_):
                    taken.append(Taken(resource, object_.key, holder, names.cluster_of(object_.metadata.labels)))
                else:
                    ours[name] = object_
        is_another = any(object_names.is_of_cluster(conflict.resource) for conflict in taken)
        secrets = tuple(self.secrets.by_index(BY_NAME, key.name)) if not is_another else ()
        machines = self.machines.by_index(BY_NAME, key.name) if not is_another else []
        owners = [
            owner for kind in (KubeadmControlPlane, MachineDeployment) for owner in by_kind[kind.resource].values()
        ]
        upgrades = _upgrades(self.upgrades, key.name, owners)
        if not is_ours:
            taken += object_names.left_over(key, secrets)
        return ClusterAPIObjects(
            objects=by_kind,
            secrets=secrets,
            sets=tuple(self.sets.by_index(BY_NAME, key.name)) if not is_another else (),
            machines=tuple(machine for machine in machines if contract.CONTROL_PLANE_LABEL in machine.metadata.labels),
            other_machines=tuple(
                machine for machine in machines if contract.CONTROL_PLANE_LABEL not in machine.metadata.labels
            ),
            taken=tuple(taken),
            upgrades=upgrades,
            node_upgrades=_upgrades([self.node_upgrades], key.name, upgrades),
            extension=self.extension.get(Key("", RUNTIME_EXTENSION)) if self.extension else None,
            adoption=adopted,
        )

    def names_of(self, key: Key, spec: eksa.ClusterSpec) -> tuple[list[str], tuple[Name, ...]]:
        """The names of worker node groups and extra objects in the existing objects of a cluster."""
        provider = self.providers.get(spec.datacenter_ref.kind) if spec.datacenter_ref else None
        if provider is None:
            return object_names.groups(spec), ()
        children = self.linked.children(key.namespace, spec)
        groups = object_names.worker_groups(spec, provider.links.domains(spec, children))
        return groups, tuple(provider.extras.names(key.name, spec, children))

    def series_of(self, cluster: eksa.Cluster) -> list[str]:
        """Name prefixes that two Clusters share exactly when they conflict: `object_names.series`.

        Names of extra objects count unless they depend on its children; conflicts over those show in the existing
        objects.
        """
        spec = cluster.spec
        provider = self.providers.get(spec.datacenter_ref.kind) if spec.datacenter_ref else None
        extras = provider.extras.names(cluster.metadata.name, spec, ()) if provider is not None else ()
        return object_names.series_of(cluster, extras)

    def _by_series(self, object_: Object) -> Iterable[str]:
        try:
            return self.series_of(read(object_))
        except msgspec.ValidationError:  # reported by its own reconcile
            return ()

    def management(self, cluster: eksa.Cluster) -> eksa.Cluster | None:
        """The Cluster that manages this one; None when it does not exist, or can't be a management cluster."""
        return self.management_cluster.of(cluster)

    def managed(self) -> list[eksa.Cluster]:
        """The Clusters that the management cluster manages. Scans all Clusters: called rarely."""
        clusters = []
        for other in self.management_cluster.managed():
            try:
                clusters.append(read(other))
            except msgspec.ValidationError:  # reported by its own reconcile
                continue
        return clusters

    @property
    def is_filled(self) -> bool:
        """True if the caches that admission needs are synced."""
        return all(
            cache.synced
            for cache in (
                self.all_clusters,
                self.management_cluster.named,
                *self.releases.caches,
                self.sets,
                self.machines,
                self.cluster_definition,
                *self.written.values(),
            )
        )

    def namesakes(self, cluster: eksa.Cluster) -> list[Key]:
        """Other Clusters of the same name, in any namespace; in unwatched ones known by their Cluster API objects."""
        meta = cluster.metadata
        keys = {other.key for other in self.all_clusters.by_index(BY_NAME, meta.name)}
        made = self.written[capi.Cluster.resource].get(ClusterIdentity.of(Key(meta.namespace, meta.name)).capi)
        owner = self.adoptions.owner_of(capi.Cluster.resource, made) if made is not None else None
        if owner is not None:
            keys.add(owner)
        return sorted(key for key in keys if key.namespace != meta.namespace)

    def _older_namesakes(self, cluster: Object) -> tuple[Key, ...]:
        """Older Clusters of the same name; of those created at the same time, ordered by namespace."""
        others = self.all_clusters.by_index(BY_NAME, cluster.name)
        return tuple(sorted(other.key for other in others if other.key != cluster.key and age(other) < age(cluster)))

    def needing(self, series: str, cluster: Key) -> list[Key]:
        """Clusters of another name that need names with this prefix."""
        keys = (other.key for other in self.all_clusters.by_index(BY_SERIES, series))
        return sorted(key for key in keys if key.name != cluster.name)

    def _contested(
        self, object_: Object, cluster: eksa.Cluster, capi_objects: ClusterAPIObjects
    ) -> tuple[tuple[str, Key], ...]:
        """Names that the cluster does not have yet and that older Clusters need. A Cluster whose objects exist keeps
        their names, whichever is older.
        """
        templates = (names_ for kind, names_ in capi_objects.objects.items() if object_names.is_template(kind))
        made = {name.rpartition("-")[0] for names_ in templates for name in names_}
        made |= {str(Name(kind, name)) for kind in self.extra_kinds for name in capi_objects.of(kind)}
        if capi_objects.cluster_object is not None:
            made |= object_names.secret_series(object_.name)
        contested = (
            (prefix, other.key)
            for prefix in self.series_of(cluster)
            if prefix not in made
            for other in self.all_clusters.by_index(BY_SERIES, prefix)
            if other.name != object_.name and age(other) < age(object_)
        )
        return (*contested, *self._claimed_by_others(object_, cluster, capi_objects))

    def _claimed_by_others(
        self, object_: Object, cluster: eksa.Cluster, capi_objects: ClusterAPIObjects
    ) -> Iterator[tuple[str, Key]]:
        """Names that the provider would give to objects of this cluster, and that another cluster has or, if it is
        older, needs. Scans all Clusters, as long as there are new ones.
        """
        reference = cluster.spec.datacenter_ref
        provider = self.providers.get(reference.kind) if reference is not None else None
        if reference is None or provider is None:
            return
        kind = provider.infrastructure.cluster
        children = self.linked.children(object_.namespace, cluster.spec)
        wanted = set(provider.claims(object_.name, cluster.spec, children))
        wanted -= {
            name for infrastructure in capi_objects.of(kind).values() for name in provider.claimed(infrastructure)
        }
        for other, spec in self._others(object_, reference.kind) if wanted else ():
            made = self.written[kind].get(ClusterIdentity.of(other.key).capi)
            is_theirs = made is not None and self.adoptions.owner_of(kind, made) == other.key
            theirs = set(provider.claimed(made)) if made is not None and is_theirs else set()
            if age(other) < age(object_):
                theirs |= set(provider.claims(other.name, spec, self.linked.children(other.namespace, spec)))
            yield from ((str(name), other.key) for name in sorted(wanted & theirs, key=str))

    def _others(self, object_: Object, datacenter_kind: str) -> Iterator[tuple[Object, eksa.ClusterSpec]]:
        """The other Clusters of a provider, in all namespaces."""
        for other in self.all_clusters.list():
            try:
                spec = read(other).spec
            except msgspec.ValidationError:  # reported by its own reconcile
                continue
            if other.key != object_.key and spec.datacenter_ref and spec.datacenter_ref.kind == datacenter_kind:
                yield other, spec

    def _lacks_address(self, object_: Object, cluster: eksa.Cluster, capi_objects: ClusterAPIObjects) -> bool:
        """True if another Cluster has the address of the API server: its control plane exists, or it is older.

        kube-vip would take over the address. In one namespace, several may share a host at different ports.
        """
        mine = endpoint.place(cluster.spec)
        if mine is None or capi_objects.control_plane is not None:
            return False
        for other in self.all_clusters.by_index(BY_ADDRESS, mine.host):
            if other.key == object_.key or not endpoint.is_shared(cluster, read(other)):
                continue
            if self._is_before(other, object_):
                return True
        return False

    def _clashes(
        self,
        object_: Object,
        cluster: eksa.Cluster,
        capi_objects: ClusterAPIObjects,
        children: Iterable[tuple[Resource, Object]],
    ) -> Iterator[str]:
        """Conflicts with the linked objects of another Cluster whose control plane exists, or that is older.

        Scans all Clusters, as long as this one is new and its provider compares anything.
        """
        reference = cluster.spec.datacenter_ref
        provider = self.providers.get(reference.kind) if reference is not None else None
        if reference is None or provider is None or provider.clashes is None or capi_objects.control_plane is not None:
            return
        mine = [child for _, child in children]
        for other, spec in self._others(object_, reference.kind) if mine else ():
            if self._is_before(other, object_):
                yield from provider.clashes(mine, self.linked.children(other.namespace, spec))

    def _is_before(self, other: Object, object_: Object) -> bool:
        """True if another Cluster has precedence: its control plane exists, or it is older."""
        made = self.written[KubeadmControlPlane.resource].get(ClusterIdentity.of(other.key).capi)
        is_made = made is not None and self.adoptions.owner_of(KubeadmControlPlane.resource, made) == other.key
        return is_made or age(other) < age(object_)

    def shared_links_of(self, cluster: Object) -> list[tuple[Resource, Object]]:
        """The linked objects that would be garbage collected with a Cluster, and that a remaining Cluster names."""
        owned = self.linked.owned_by(cluster.metadata.uid, cluster.namespace)
        return [(resource, child) for resource, child in owned if self._stays_in_use(child, cluster.key)]

    def _stays_in_use(self, linked: Object, without: Key) -> bool:
        users = self.all_clusters.by_index(BY_LINK, link(linked.kind, linked.key))
        return any(user.key != without and user.metadata.deletion_timestamp is None for user in users)


def _by_name(object_: Object) -> Iterable[str]:
    return (object_.name,)


def _by_cluster_name(object_: Object) -> Iterable[str]:
    name = object_.metadata.labels.get(kubeconfig.CLUSTER_NAME_LABEL)
    return (name,) if name else ()


def _upgrades(caches: Iterable[Cache], cluster: str, owners: Iterable[Object]) -> tuple[Object, ...]:
    """The upgrades with a cluster's label, and those that these objects control, whatever their label says."""
    uids, upgrades = [owner.metadata.uid for owner in owners], dict[tuple[str, Key], Object]()
    for cache in caches:
        controlled = (upgrade for uid in uids for upgrade in cache.by_index(BY_CONTROLLER, uid))
        upgrades.update(
            {(upgrade.kind, upgrade.key): upgrade for upgrade in (*cache.by_index(BY_NAME, cluster), *controlled)}
        )
    return tuple(upgrades.values())


def _by_spec(object_: Object) -> Iterable[str]:
    return (capi_labels.cluster_of(object_),)


def _by_cluster(object_: Object) -> Iterable[str]:
    key = names.cluster_of(object_.metadata.labels)
    return (str(key),) if key is not None else ()


def _by_address(object_: Object) -> Iterable[str]:
    try:
        place = endpoint.place(read(object_).spec)
    except msgspec.ValidationError:  # reported by its own reconcile
        return ()
    return (place.host,) if place is not None else ()


def _by_link(object_: Object) -> Iterable[str]:
    try:
        spec = read(object_).spec
    except msgspec.ValidationError:  # reported by its own reconcile; an error here would end the watch
        return ()
    linked = [reference for _, reference in references(spec)]
    of_git_ops = [spec.git_ops_ref] if spec.git_ops_ref is not None else []
    values = [link(reference.kind, Key(object_.namespace, reference.name)) for reference in (*linked, *of_git_ops)]
    return dict.fromkeys([*values, *(BY_GIT_OPS for _ in of_git_ops)])


def link(kind: str, key: Key) -> str:
    """The value of `BY_LINK` for Clusters that reference this object of their namespace."""
    return f"{kind}/{key.namespace}/{key.name}"
