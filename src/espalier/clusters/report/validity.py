"""Validation in the reconcile: the rules of admission, and those that admission could not check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from espalier.api.eksa.cluster import Cluster, ClusterSpec
from espalier.api.eksa.identity_providers import OIDCConfig
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.text.violations import Violation
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import adoption
from espalier.clusters.design.provider import Providers, bottlerocket_groups
from espalier.clusters.design.render.api_server import authentication, authenticator
from espalier.clusters.design.render_input import group_name
from espalier.clusters.observe.machines.observed_versions import running
from espalier.clusters.observe.references import Missing
from espalier.clusters.observe.rules import changes, content, gitops, messages, releases, sharing, unsupported
from espalier.clusters.observe.rules.control_planes import endpoint, identity
from espalier.clusters.observe.rules.machines import bottlerocket, operating_systems
from espalier.clusters.observe.scope import Scope, is_self_managed
from espalier.clusters.report.checks.problems import address_taken
from espalier.kube.objects import Object
from espalier.releases import MissingDistro, UnusableBundles, UnusableDistro, kubernetes_versions
from espalier.runtime.controllers.outcome import Wait


def missing_objects(missing: Sequence[Missing], grace: float = 0.0) -> Wait | None:
    """Wait for missing linked objects, and for Secrets that do not permit their use; for `grace` seconds without a
    failure."""
    if not missing:
        return None
    message = "; ".join(f"{reference.field}: waiting for {reference.what}" for reference in missing)
    if grace > 0:
        return Wait(Reason.DEPENDENT_OBJECTS_AWAITED, message, after=grace)
    only_credentials = all(reference.is_credentials for reference in missing)
    reason = Reason.CREDENTIALS_NOT_PERMITTED if only_credentials else Reason.MISSING_DEPENDENT_OBJECTS
    return Wait(
        reason, message, min((reference.after for reference in missing if reference.after is not None), default=None)
    )


def known_problem(scope: Scope) -> Wait | None:
    """The problem of a cluster that is created or changed, and with its linked objects, while others are awaited.

    Rules about linked objects need all of them, but for credentials.
    """
    if scope.is_settled or not all(reference.is_credentials for reference in scope.awaited):
        return None
    return problem(scope)


def children_problems(scope: Scope) -> Iterable[Wait]:
    """The reasons of the provider for which a cluster that is created or changed must wait."""
    reference = scope.spec.datacenter_ref
    provider = scope.providers.get(reference.kind) if reference is not None else None
    if scope.is_settled or provider is None:
        return ()
    children = [child for _, child in scope.children]
    return provider.links.problems(scope.cluster, children, scope.capi_objects.control_plane is None)


def unresolved_values(scope: Scope) -> Wait | None:
    """Wait for values that the provider has not resolved yet."""
    if not scope.unresolved:
        return None
    message = "; ".join(f"{what}: waiting for the provider to resolve it" for what in scope.unresolved)
    return Wait(Reason.VALUES_NOT_RESOLVED, f"{message}; if this persists, see the status of the object")


def _clashes(scope: Scope) -> Wait | None:
    if not scope.clashes:
        return None
    return Wait(Reason.MACHINE_ADDRESSES_TAKEN, "; ".join(dict.fromkeys(scope.clashes)))


def problem(scope: Scope) -> Wait | None:
    """The first problem that keeps the cluster from being created or changed; None if there is none."""
    return _self_managed(scope) or _content(scope) or conflict(scope) or _relations(scope)


def problems_beside_content(scope: Scope) -> Iterator[Wait]:
    """All such problems, except violations of its content."""
    for judge in (_self_managed, _name, _address, _clashes, *_RELATIONS):
        if wait := judge(scope):
            yield wait


def conflict(scope: Scope) -> Wait | None:
    """The conflict with another cluster: over the name, names of objects, the endpoint, or addresses of machines.

    It is also known for a Cluster with missing linked objects.
    """
    return _name(scope) or _address(scope) or _clashes(scope)


def standing_problem(scope: Scope) -> Wait | None:
    """The first problem of a settled cluster: one that changes of other objects caused since it was fully reconciled.

    Its own spec was checked then.
    """
    return _self_managed(scope) or _relations(scope)


def record_problem(scope: Scope) -> Wait | None:
    """The first problem of the management cluster's record with respect to the clusters that it manages."""
    if violations := list(releases.managed(None, scope.cluster, scope.managed)):
        return Wait(Reason.EKSA_VERSION_INVALID, "; ".join(map(str, violations)))
    if violations := list(sharing.of_record(None, scope.cluster, [cluster for cluster, _ in scope.managed])):
        return Wait(Reason.CLUSTER_INVALID, "; ".join(map(str, violations)))
    return None


def _relations(scope: Scope) -> Wait | None:
    for judge in _RELATIONS:
        if wait := judge(scope):
            return wait
    return None


def _self_managed(scope: Scope) -> Wait | None:
    if not scope.is_self_managed or scope.is_upgraded_record:
        return None
    if not scope.is_management:
        message = messages.not_the_management_cluster(scope.management_key)
        return Wait(Reason.MANAGEMENT_CLUSTER_REF_INVALID, f"spec.managementCluster.name: {message}")
    return Wait(Reason.CLUSTER_INVALID, content.SELF_MANAGED)


def linked_violations(
    cluster: Cluster, providers: Providers, children: Sequence[Object], *, is_made: bool = False
) -> Iterator[Violation]:
    """The violations of a Cluster together with its linked objects. `is_made`: the cluster has Cluster API objects, and
    goes on with a strategy that an earlier release has accepted; its upgrades are then refused on its nodes."""
    provider = unsupported.provider_of(cluster.spec, providers)
    if provider is not None:
        yield from provider.links.violations(cluster, children)
    yield from bottlerocket.violations(provider, cluster.spec, children)
    yield from (bottlerocket if is_made else operating_systems).in_place(provider, cluster.spec, children)


class _Judged(NamedTuple):
    """The judged parts of a Cluster with its linked objects, and their violations."""

    spec: ClusterSpec
    annotations: Mapping[str, str]
    children: tuple[Object, ...]
    is_made: bool
    violations: tuple[Violation, ...]


def _violations(scope: Scope) -> tuple[Violation, ...]:
    """The violations of the Cluster by itself and with its linked objects, held by the render input: from one
    reconcile to the next hardly ever one of them changes.
    """
    is_made = scope.capi_objects.cluster_object is not None
    children = tuple(child for _, child in scope.children)
    question = (scope.spec, scope.cluster.metadata.annotations, children, is_made)
    held = vars(scope.render_input) if scope.render_input is not None else {}
    last: _Judged | None = held.get("judged")
    if last is None or last[:-1] != question:
        rules = content.violations(scope.cluster, scope.providers)
        linked = linked_violations(scope.cluster, scope.providers, children, is_made=is_made)
        last = held["judged"] = _Judged(*question, (*rules, *linked))
    return last.violations


def _content(scope: Scope) -> Wait | None:
    name, _, digest = scope.capi_objects.installed_cni.rpartition("-")
    # An older manager that allowed the change may have left it half-way: either plugin is accepted then.
    installed = name if digest != names.UNFINISHED else ""
    other = changes.other_plugin(scope.spec, installed)
    violations = [*_violations(scope), *other, *changes.too_early(scope.cluster, running(scope.capi_objects))]
    return Wait(Reason.CLUSTER_INVALID, "; ".join(map(str, violations))) if violations else None


def name_taken(scope: Scope) -> Wait:
    """Reason and message for objects under the names of a cluster that do not belong to it."""
    if scope.has_lost_record:
        return Wait(Reason.NOT_ADOPTED, messages.record_lost(adoption.config_map(scope.key.name), scope.key))
    return Wait(Reason.CLUSTER_NAME_TAKEN, messages.name_taken(scope.capi_objects.taken))


def _name(scope: Scope) -> Wait | None:
    groups = [group_name(group) for group in scope.groups]
    if twice := sorted({name for name in groups if groups.count(name) > 1}):
        message = (
            f"spec.workerNodeGroupConfigurations: several groups would share MachineDeployment {', '.join(twice)}, "
            "which is named after the group and its failure domain; choose other names"
        )
        return Wait(Reason.CLUSTER_INVALID, message)
    if scope.older_namesakes:
        others = ", ".join(map(str, scope.older_namesakes))
        message = (
            f'the name "{scope.key.name}" is taken by cluster {others}: '
            "names of clusters are unique in a management cluster; delete this one and choose another name"
        )
        return Wait(Reason.CLUSTER_NAME_TAKEN, message)
    if scope.is_name_taken:
        return name_taken(scope)
    if scope.contested:
        wanted = ", ".join(f"{name} of cluster {key}" for name, key in scope.contested)
        message = (
            f"objects of this cluster would have the names of older clusters' objects: {wanted}; "
            "choose other names for the worker node groups or failure domains, or delete this cluster and choose "
            "another name for it"
        )
        return Wait(Reason.CLUSTER_NAME_TAKEN, message, after=60.0)
    return None


def _address(scope: Scope) -> Wait | None:
    if not scope.lacks_address:
        return None
    return Wait(
        Reason.CONTROL_PLANE_ADDRESS_TAKEN, address_taken(endpoint.FIELD, scope.spec.endpoint_host, "another cluster")
    )


def _authenticator(scope: Scope) -> Wait | None:
    if scope.render_input is None or not authenticator.lacks_image(scope.render_input):
        return None
    message = messages.no_authenticator(scope.render_input.of_control_plane.distro.name)
    return Wait(Reason.CLUSTER_INVALID, f"spec.identityProviderRefs: {message}")


def _identity(scope: Scope) -> Wait | None:
    """Reject a change by a recreated OIDCConfig, which is as immutable as one that stayed.

    Skipped when the Cluster changed as well: admission warned about the effects.
    """
    control_plane, render_input = scope.capi_objects.control_plane, scope.render_input
    if (
        control_plane is None
        or render_input is None
        or scope.status.observed_generation < scope.object.metadata.generation
    ):
        return None
    wanted, live = authentication.flags(render_input), authentication.flags_of(control_plane)
    others = sorted(name for name in live.keys() | wanted.keys() if live.get(name) != wanted.get(name))
    if not (live and wanted and others):
        return None
    return Wait(Reason.CLUSTER_INVALID, f"spec.identityProviderRefs: {messages.other_provider(others)}")


def _issuer(scope: Scope) -> Wait | None:
    config = authentication.linked(scope.render_input, OIDCConfig) if scope.render_input is not None else None
    if config is None:
        return None
    violations = list(identity.shared_issuer(scope.spec, "spec.identityProviderRefs", config.spec.issuer_url))
    return Wait(Reason.CLUSTER_INVALID, "; ".join(map(str, violations))) if violations else None


def lacking_images(scope: Scope) -> str:
    """The images that a cluster can't be rendered without, and its Bundles lack; empty if there are none."""
    if scope.render_input is None:
        return ""
    violations = [
        *releases.components(scope.spec, scope.render_input.provider, scope.bundles),
        *releases.images(scope.spec, bottlerocket.lacks(scope.render_input), scope.bundles),
    ]
    return "; ".join(map(str, violations))


def _components(scope: Scope) -> Wait | None:
    """Of a settled cluster, only another manager can need more of its Bundles: see `_missing`."""
    lacking = "" if scope.is_settled else lacking_images(scope)
    return Wait(Reason.EKSA_VERSION_INVALID, lacking) if lacking else None


def _cluster_api(scope: Scope) -> Wait | None:
    """Features of the Cluster that stock Cluster API lacks. Support for external etcd identifies EKS Anywhere's
    build.
    """
    if scope.knows_external_etcd:
        return None
    if scope.spec.external_etcd_configuration is not None:
        message = f"spec.externalEtcdConfiguration: {messages.REQUIRES_EKS_ANYWHERE}"
        return Wait(Reason.REQUIRES_EKS_ANYWHERE_CLUSTER_API, message)
    provider = unsupported.provider_of(scope.spec, scope.providers)
    groups = bottlerocket_groups(provider, scope.spec, [child for _, child in scope.children])
    if not groups:
        return None
    places = ", ".join(f"{field}.machineGroupRef" for field in groups)
    return Wait(Reason.REQUIRES_EKS_ANYWHERE_CLUSTER_API, f"{places}: {messages.BOTTLEROCKET_REQUIRES_EKS_ANYWHERE}")


def _management(scope: Scope) -> Wait | None:
    name, key = scope.spec.management_cluster.name, scope.management_key
    if scope.management is None:
        message = messages.no_management_cluster(name, key)
        return Wait(Reason.MANAGEMENT_CLUSTER_REF_INVALID, f"spec.managementCluster.name: {message}")
    if not is_self_managed(scope.management):
        return Wait(
            Reason.MANAGEMENT_CLUSTER_REF_INVALID,
            f"spec.managementCluster.name: {messages.manages_nobody(name)}",
        )
    return None


def _skew(scope: Scope) -> Wait | None:
    violations = list(releases.skew(scope.spec, scope.release, scope.management))
    return Wait(Reason.EKSA_VERSION_INVALID, "; ".join(map(str, violations))) if violations else None


def _git_ops(scope: Scope) -> Wait | None:
    violations = list(gitops.violations(None, scope.cluster, scope.management, scope.other_git_ops))
    return Wait(Reason.CLUSTER_INVALID, "; ".join(map(str, violations))) if violations else None


def _sharing(scope: Scope) -> Wait | None:
    if scope.is_upgraded_record:  # its objects are its own
        return record_problem(scope)
    violations = list(sharing.violations(None, scope.cluster, scope.management))
    return Wait(Reason.CLUSTER_INVALID, "; ".join(map(str, violations))) if violations else None


def _release(scope: Scope) -> Wait | None:
    wait = _missing(scope)
    if wait is None or not scope.unusable:
        return wait
    return Wait(wait.reason, f"{wait.message}; {scope.unusable}")


def _replaced(scope: Scope) -> Wait | None:
    if not scope.replaced_releases:
        return None
    return Wait(Reason.RELEASE_REPLACED, messages.other_content(", ".join(scope.replaced_releases)))


def _missing(scope: Scope) -> Wait | None:
    spec = scope.spec
    if scope.bundles is None:
        if scope.bundles_ref is not None:
            of_release = "" if spec.bundles_ref else spec.eksa_version or ""
            return Wait(Reason.BUNDLE_NOT_FOUND_FOR_CLUSTER, messages.no_bundles(of_release, scope.bundles_ref))
        known = ", ".join(releases.fitting(spec, scope.known_versions, scope.management)) or "none"
        if not spec.eksa_version:
            return Wait(
                Reason.EKSA_VERSION_INVALID, f"spec.eksaVersion: missing; set a release, available are: {known}"
            )
        message = f"spec.eksaVersion: there is no EKSARelease for {spec.eksa_version}; available are: {known}"
        return Wait(Reason.EKSA_VERSION_INVALID, message)
    if isinstance(scope.problem, UnusableBundles | UnusableDistro):
        # Of a settled cluster, only another manager can judge what is there differently (it is immutable; other content
        # is reported as such). Synced says it, and so does the next change.
        if scope.is_settled and not isinstance(scope.problem, MissingDistro):
            return None
        is_distro = isinstance(scope.problem, UnusableDistro)
        return Wait(Reason.EKSD_RELEASE_INVALID if is_distro else Reason.BUNDLES_INVALID, str(scope.problem))
    if scope.problem is not None:
        versions = ", ".join(kubernetes_versions(scope.bundles))
        message = f"spec.kubernetesVersion: {scope.problem}; choose one of {versions}"
        return Wait(Reason.CLUSTER_INVALID, message)
    return None


_RELATIONS = (
    _cluster_api,
    _components,
    _authenticator,
    _identity,
    _issuer,
    _management,
    _git_ops,
    _sharing,
    _release,
    _skew,
    _replaced,
)
