"""Admission of Clusters: defaults, violations, warnings. It also serves that of releases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.identity_providers import AWSIamConfig
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.manifests import schema
from espalier.api.meta import Tree
from espalier.api.moves import DELETE_FOR_MOVE
from espalier.api.resource import Key
from espalier.api.text import redaction
from espalier.api.text.violations import Violation
from espalier.clusters.admission.release_admission import (
    field_differences,
    validate_bundles,
    validate_distro,
    validate_release,
)
from espalier.clusters.design import names, registry_mirror
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.design.provider import Name
from espalier.clusters.design.render_input import group_name
from espalier.clusters.effects import summary
from espalier.clusters.observe.flux import FluxKustomizations
from espalier.clusters.observe.machines import downgrade
from espalier.clusters.observe.machines.observed_versions import running
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.rules import (
    changes,
    connections,
    content,
    gitops,
    messages,
    releases,
    sharing,
    unsupported,
    warnings,
)
from espalier.clusters.observe.rules.control_planes import api_server
from espalier.clusters.observe.rules.machines import operating_systems
from espalier.clusters.observe.scope import ClusterAPIObjects, is_self_managed, read
from espalier.clusters.plan import decisions, in_place
from espalier.kube.objects import Object, encode_json
from espalier.kube.transports.wire import User
from espalier.releases import IncompleteDistro, distro_of, kubernetes_versions
from espalier.runtime.controllers.reconciler import is_moved_away
from espalier.runtime.servers.admission import (
    WRITES,
    AdmissionRequest,
    AdmissionResponse,
    AdmissionWebhook,
    Handler,
    not_ready,
)

if TYPE_CHECKING:
    from espalier.runtime.servers.webhooks import Webhooks

_PATH = "anywhere-eks-amazonaws-com-v1alpha1"
MUTATE_CLUSTER = f"/mutate-{_PATH}-cluster"
VALIDATE_CLUSTER = f"/validate-{_PATH}-cluster"
VALIDATE_RELEASE = f"/validate-{_PATH}-eksarelease"
VALIDATE_BUNDLES = f"/validate-{_PATH}-bundles"
VALIDATE_DISTRO = "/validate-distro-eks-amazonaws-com-v1alpha1-release"

_CONTROL_PLANE = "controlPlaneConfiguration"
_ACCOUNTS = "system:serviceaccount:"

_WRITES_AND_DELETIONS = (*WRITES, "DELETE")
WEBHOOKS = (
    AdmissionWebhook("mutate", eksa.Cluster.resource, MUTATE_CLUSTER, watched=True),
    AdmissionWebhook("validate", eksa.Cluster.resource, VALIDATE_CLUSTER, watched=True),
    AdmissionWebhook("validate", EKSARelease.resource, VALIDATE_RELEASE, _WRITES_AND_DELETIONS),
    AdmissionWebhook("validate", Bundles.resource, VALIDATE_BUNDLES, _WRITES_AND_DELETIONS),
    AdmissionWebhook("validate", DistroRelease.resource, VALIDATE_DISTRO, _WRITES_AND_DELETIONS),
    # Clusters can be deleted without a manager: the one that may not is held by a finalizer as well.
    AdmissionWebhook("delete", eksa.Cluster.resource, VALIDATE_CLUSTER, ("DELETE",), "Ignore", watched=True),
)


class Admission:
    """The handlers. They read only caches and the clock.

    Responses name no object that the request does not name, because the requester may not be allowed to read it. With
    `names_others` everything was read with the requester's own rights. `unready` says why the manager is not ready.
    """

    def __init__(
        self,
        observer: ClusterObserver,
        now: Callable[[], datetime],
        *,
        names_others: bool = False,
        unready: Callable[[], str] = lambda: "",
        flux: FluxKustomizations | None = None,
    ) -> None:
        self._observer = observer
        self._now = now
        self._unready = unready
        self._flux = flux
        self._names_others = names_others
        self._names_of = messages.listed if names_others else messages.counted

    def serve(self, webhooks: Webhooks) -> None:
        """Offer the handlers at their paths."""
        webhooks.handle(MUTATE_CLUSTER, self.default)
        webhooks.handle(VALIDATE_CLUSTER, self.validate)
        webhooks.handle(VALIDATE_RELEASE, self.protected(validate_release))
        webhooks.handle(VALIDATE_BUNDLES, self.protected(validate_bundles))
        webhooks.handle(VALIDATE_DISTRO, self.protected(validate_distro))

    def protected(self, validate: Handler) -> Handler:
        """A handler that validates release objects, and rejects the deletion of those in use."""

        def judge(request: AdmissionRequest) -> AdmissionResponse:
            if request.operation != "DELETE" or request.old is None:
                return validate(request)
            if not self._observer.is_filled:
                return not_ready("manager", self._unready())
            try:
                users = self._observer.release_use.protecting(request.old)
            except msgspec.ValidationError:  # nothing can be made of it
                return AdmissionResponse()
            if not users:
                return AdmissionResponse()
            where = f"{request.old.kind} {request.old.name}"
            message = f"{where} can't be deleted: {messages.in_use(self._names_of(users))}"
            return AdmissionResponse(False, message)

        return judge

    def default(self, request: AdmissionRequest) -> AdmissionResponse:
        """Set defaults for missing fields; given values stay unchanged. A warning says so where the default becomes a
        name.

        A change of an existing Cluster is judged here as well, before the API server judges it by schema and rules:
        they answer 422, which `AdmissionResponse.of_an_existing` has to avoid.
        """
        if request.object is None:
            return AdmissionResponse()
        response = self._defaulted(request, request.object)
        if request.operation == "CREATE":
            return response
        asked = request.object if response.changed is None else Object(encode_json(response.changed))
        refusal = self._refusal(request, asked)
        return response if refusal is None else _concealed(asked, refusal)

    def _refusal(self, request: AdmissionRequest, asked: Object) -> AdmissionResponse | None:
        """The refusal of a change by the schema, which lets pass what was invalid before, or by the rules."""
        if asked.metadata.deletion_timestamp is not None:
            return None
        before = schema.violations(eksa.Cluster, request.old.tree) if request.old is not None else []
        if new := [violation for violation in schema.violations(eksa.Cluster, asked.tree) if violation not in before]:
            return AdmissionResponse.refuse(asked, new)
        response = self._judge(replace(request, object=asked, dry_run=False), asked)
        return response if not response.allowed else None

    def _defaulted(self, request: AdmissionRequest, asked: Object) -> AdmissionResponse:
        try:
            cluster = read(asked)
        except msgspec.ValidationError:
            return AdmissionResponse()  # validation says what is wrong
        tree = asked.tree
        spec = tree.setdefault("spec", {})
        unnamed = [index for index, group in enumerate(_groups(spec)) if not group.get("name")]
        for group in _groups(spec):
            if not group.get("name") and len(_groups(spec)) == 1:
                group["name"] = names.DEFAULT_GROUP
            if group.get("count") is None:
                scaling = group.get("autoscalingConfiguration")
                group["count"] = scaling.get("minCount", 0) if scaling else names.DEFAULT_WORKERS
        mirror = spec.get("registryMirrorConfiguration")
        if mirror and not mirror.get("port"):
            mirror["port"] = registry_mirror.DEFAULT_PORT
        managed = not is_self_managed(cluster)
        if managed and request.operation == "CREATE" and not (spec.get("eksaVersion") or spec.get("bundlesRef")):
            management = self._observer.management(cluster)
            if management is not None and management.spec.eksa_version:
                spec["eksaVersion"] = management.spec.eksa_version
        return AdmissionResponse(changed=tree, warnings=tuple(map(messages.unnamed_group, unnamed)))

    def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        """Reject an invalid Cluster with all violations at once. In a dry run, warnings describe the effects."""
        if request.operation == "DELETE" and request.old is not None:
            return self._deletion(request.old, request.user)
        if request.object is None:
            return AdmissionResponse()
        return _concealed(request.object, self._judge(request, request.object))

    def _judge(self, request: AdmissionRequest, asked: Object) -> AdmissionResponse:
        try:
            new = read(asked)
            old = read(request.old) if request.old is not None else None
        except msgspec.ValidationError:
            return AdmissionResponse.refuse(asked, schema.violations(eksa.Cluster, asked.tree))
        wished = tuple(warnings.annotation_values(new.metadata.annotations, self._observer.patches))
        if old is not None and (new.metadata.deletion_timestamp or _is_same(old, new)):
            changed = self._linked_warnings(new) if request.dry_run else ()  # linked objects may be about to change
            return AdmissionResponse(warnings=(*wished, *changed, *self._preview(request, new)))
        if not self._observer.is_filled:
            return not_ready("manager", self._unready())
        management = None if is_self_managed(new) else self._observer.management(new)
        violations = list(self._violations(old, new, management))
        if request.old is not None:
            with suppress(LookupError, ValueError):  # what is refused otherwise may be nothing that can be rendered
                violations += self._in_place_violations(request.old, asked)
        warned = (
            *wished,
            *unsupported.warnings(new.spec, self._observer.providers),
            *connections.warnings(new.spec, self._observer.releases.bundles(new.spec)),
            *self._linked_warnings(new),
            *api_server.warnings(new.spec),
            *(changes.warnings(old.spec, new.spec) if old is not None else ()),
            *releases.warnings(new, management),
            *warnings.support(new.spec, self._observer.releases.bundles(new.spec), self._now()),
        )
        if violations:
            return AdmissionResponse.refuse(asked, violations, warned)
        if is_self_managed(new):
            warned = (messages.PAUSED_RECORD,)
        return AdmissionResponse(warnings=(*warned, *self._preview(request, new)))

    def _linked_warnings(self, new: eksa.Cluster) -> Iterable[str]:
        if is_self_managed(new):
            return ()
        children = self._observer.linked.children(new.metadata.namespace, new.spec)
        return warnings.linked(unsupported.provider_of(new.spec, self._observer.providers), new.spec, children)

    def _in_place_violations(self, old: Object, new: Object) -> Iterator[Violation]:
        """Changes of the control plane and groups that can't be made in place, as far as the caches show.

        The controller checks again. A change that was rejected before and is still there does not block this write.
        """
        unsupported_systems = self._systems_in_place(new)
        if unsupported_systems:
            yield from (system for system in unsupported_systems if system not in self._systems_in_place(old))
            return
        before = {change.refusal for change in self._owner_changes(old)}
        changed = [
            field for field, *_ in field_differences("spec", old.tree.get("spec") or {}, new.tree.get("spec") or {})
        ]
        groups = [group_name(group) for group in read(new).spec.worker_node_group_configurations]
        for change in self._owner_changes(new):
            if change.refusal and change.refusal not in before:
                place = (
                    f"workerNodeGroupConfigurations[{groups.index(change.group)}]" if change.group else _CONTROL_PLANE
                )
                field = f"spec.{place}.upgradeRolloutStrategy"
                message = messages.not_in_place(change.refusal, changed)
                yield Violation(field, "type InPlace", "type RollingUpdate, or fallback RollingUpdate", message)

    def _systems_in_place(self, asked: Object) -> list[Violation]:
        cluster = read(asked)
        provider = unsupported.provider_of(cluster.spec, self._observer.providers)
        children = self._observer.linked.children(cluster.metadata.namespace, cluster.spec)
        return list(operating_systems.in_place(provider, cluster.spec, children))

    def _owner_changes(self, asked: Object) -> Iterable[in_place.OwnerChange]:
        scope = self._observer.scope_of(asked)
        planned = decisions.of(scope)
        if planned is None or scope.is_paused or scope.is_settled or scope.is_self_managed:
            return ()
        return planned.owner_changes

    def _deletion(self, record: Object, user: User) -> AdmissionResponse:
        """Reject the deletion of the management cluster's record while it manages clusters, and deletions by Flux while
        it may only mean to make a change (decision 0188). One that was moved may go.
        """
        known = self._observer.management_cluster
        if is_moved_away(record):
            return AdmissionResponse()
        if not self._observer.is_filled:  # its finalizer holds it
            return AdmissionResponse()
        forced = self._flux.forcing(record) if self._flux is not None and _is_a_controller(user) else ""
        if forced:
            return AdmissionResponse(False, f"Cluster {record.key} can't be deleted: {messages.forced(forced)}")
        if not known.is_it(record.key) or not _manages_itself(record):
            return AdmissionResponse()
        managed = known.managed()
        if managed:
            message = messages.manages(self._names_of(cluster.key for cluster in managed))
        elif self._observer.capi_objects(record.key, read(record).spec).cluster_object is not None:
            message = messages.runs_on_itself(record.name)
        else:
            return AdmissionResponse()
        return AdmissionResponse(False, f"Cluster {record.key} can't be deleted: {message}")

    def _preview(self, request: AdmissionRequest, new: eksa.Cluster) -> Iterable[str]:
        """The effects of a change, for dry runs."""
        asks = request.dry_run and not new.metadata.deletion_timestamp and not is_self_managed(new)
        if asks and request.object is not None and self._observer.is_filled and self._knows(request.object):
            yield from summary.sentences(self._observer.scope_of(request.object))

    def _knows(self, asked: Object) -> bool:
        """True if the review has the uid of the stored Cluster, which only API servers and readers of the Cluster know.

        Anybody who reaches the port can send a review.
        """
        stored = self._observer.all_clusters.get(asked.key)
        if stored is None:
            return self._observer.capi_objects(asked.key, read(asked).spec).cluster_object is None
        return stored.metadata.uid == asked.metadata.uid

    def _violations(
        self, old: eksa.Cluster | None, new: eksa.Cluster, management: eksa.Cluster | None
    ) -> Iterable[Violation]:
        yield from self._content_violations(old, new)
        yield from releases.fields(old, new, management)
        other = self._observer.git_ops.other(new, management)
        yield from gitops.violations(old, new, management, other, names_others=self._names_others)
        yield from sharing.violations(old, new, management)
        capi_objects = self._observer.capi_objects(Key(new.metadata.namespace, new.metadata.name), new.spec)
        if not is_self_managed(new):
            yield from self._generated_name_violations(old, new, capi_objects)
        is_made = capi_objects.cluster_object is not None
        asks_etcd = new.spec.external_etcd_configuration is not None and not is_self_managed(new)
        if asks_etcd and not is_made and not self._observer.knows_external_etcd:
            field = "spec.externalEtcdConfiguration"
            yield Violation(field, "external etcd", "nothing", messages.REQUIRES_EKS_ANYWHERE)
        if not is_made and not is_self_managed(new):
            before = old.spec if old is not None else None
            yield from unsupported.kindnetd(before, new.spec, self._observer.providers)
        known = self._observer.releases.versions()
        is_unused = old is not None and downgrade.is_unused(
            old.metadata.annotations, self._observer.releases.content(new.spec)
        )
        yield from releases.version(old, new, known=known, management=management, is_made=is_made, is_unused=is_unused)
        if is_self_managed(new):
            yield from self._record_violations(old, new)
        if old is not None:
            yield from _kubernetes_violations(old, new, capi_objects, self._observer.releases.bundles(new.spec))
        if not is_self_managed(new):
            yield from self._management_violations(old, new, management)
            yield from self._bundles_violations(new)
            yield from self._authenticator_violations(new)

    def _record_violations(self, old: eksa.Cluster | None, new: eksa.Cluster) -> Iterable[Violation]:
        """There is one record of a management cluster, and its release must suit the clusters that it manages."""
        known, key = self._observer.management_cluster, Key(new.metadata.namespace, new.metadata.name)
        before = old if old is not None and is_self_managed(old) else None
        if before is None and not (known.is_named and known.is_it(key)):
            manager = new.spec.management_cluster.name or "nothing"
            allowed = known.key.name if known.key is not None and self._names_others else ""
            message = messages.not_the_management_cluster(known.key, names_others=self._names_others)
            yield Violation("spec.managementCluster.name", manager, allowed, message)
        elif known.is_it(key):
            managed = self._observer.managed()
            at = [(cluster, self._observer.release_of(cluster)) for cluster in managed]
            yield from releases.managed(before, new, at, self._names_of)
            yield from sharing.of_record(before, new, managed, self._names_of)

    def _management_violations(
        self, old: eksa.Cluster | None, new: eksa.Cluster, management: eksa.Cluster | None
    ) -> Iterable[Violation]:
        """Check that a cluster names the management cluster, whose record may be created later. An unchanged name is
        not checked again.
        """
        name, key = new.spec.management_cluster.name, self._observer.management_cluster.key
        if old is not None and old.spec.management_cluster.name == name:
            return
        if key is not None and key.name != name:
            message = messages.no_management_cluster(name, key, names_others=self._names_others)
            yield Violation("spec.managementCluster.name", name, key.name if self._names_others else "", message)
        elif management is not None and not is_self_managed(management):
            allowed = management.spec.management_cluster.name if self._names_others else ""
            yield Violation("spec.managementCluster.name", name, allowed, messages.manages_nobody(name))

    def _content_violations(self, old: eksa.Cluster | None, new: eksa.Cluster) -> Iterable[Violation]:
        if is_self_managed(new):
            is_refused = not _is_paused(new)
            if is_refused:
                name = new.spec.management_cluster.name or "nothing"
                yield Violation("spec.managementCluster.name", name, "", content.SELF_MANAGED)
            if is_refused and old is None:  # also what is wrong once it names the cluster that manages it
                yield from content.violations(new, self._observer.providers)
            else:
                yield from content.name_violations(new.metadata.name)
            if old is not None and not is_self_managed(old) and not _is_paused(old):
                yield from changes.fixed(old.spec, new.spec)
            return
        yield from content.violations(new, self._observer.providers)
        if old is None:
            yield from self._name_violations(new)
        elif not _is_paused(old):
            yield from changes.fixed(old.spec, new.spec)
            if provider := unsupported.provider_of(new.spec, self._observer.providers):
                yield from provider.changes(old.spec, new.spec)

    def _name_violations(self, new: eksa.Cluster) -> Iterable[Violation]:
        for other in self._observer.namesakes(new):
            message = messages.cluster_name_taken(other if self._names_others else None)
            yield Violation("metadata.name", new.metadata.name, "", message)

    def _generated_name_violations(
        self, old: eksa.Cluster | None, new: eksa.Cluster, capi_objects: ClusterAPIObjects
    ) -> Iterable[Violation]:
        """Names of objects, built from those of the cluster and its groups, must not be another cluster's.

        Only new names are checked: the controller leaves existing objects to their owners.
        """
        key = Key(new.metadata.namespace, new.metadata.name)
        before = set(self._observer.series_of(old)) if old is not None else set()
        groups = object_names.groups(new.spec)
        made_for = {
            name: conflict.cluster
            for conflict in capi_objects.taken
            if conflict.cluster and conflict.cluster != key
            for name in (conflict.key.name, str(Name(conflict.resource, conflict.key.name)))
        }
        for place, series in enumerate(self._observer.series_of(new)):
            if series in before:
                continue
            others = self._observer.needing(series, key) or sorted(
                {cluster for name, cluster in made_for.items() if name in (series, f"{series}-1")}
            )
            # The control plane comes first, etcd and extra objects last.
            is_of_group = 0 < place <= len(new.spec.worker_node_group_configurations)
            field = f"spec.workerNodeGroupConfigurations[{place - 1}].name" if is_of_group else "metadata.name"
            name = groups[place - 1] if is_of_group else key.name
            for other in others if self._names_others else [None for _ in others][:1]:
                yield Violation(field, name, "", messages.name_of(series, other))

    def _bundles_violations(self, new: eksa.Cluster) -> Iterable[Violation]:
        """The Bundles of the cluster must have its versions; missing Bundles are not checked."""
        bundles = self._observer.releases.bundles(new.spec)
        if bundles is None:
            return
        there = kubernetes_versions(bundles)
        release = new.spec.eksa_version or bundles.metadata.name
        if new.spec.kubernetes_version and new.spec.kubernetes_version not in there:
            message = messages.not_in_release(release, new.spec.kubernetes_version)
            yield Violation("spec.kubernetesVersion", new.spec.kubernetes_version, ", ".join(there), message)
        for index, group in enumerate(new.spec.worker_node_group_configurations):
            if group.kubernetes_version and group.kubernetes_version not in there:
                field = f"spec.workerNodeGroupConfigurations[{index}].kubernetesVersion"
                message = messages.not_in_release(release, group.kubernetes_version)
                yield Violation(field, group.kubernetes_version, ", ".join(there), message)
        if provider := unsupported.provider_of(new.spec, self._observer.providers):
            yield from releases.components(new.spec, provider, bundles)

    def _authenticator_violations(self, new: eksa.Cluster) -> Iterable[Violation]:
        """Releases from before v0.26.0 have no image of AWS IAM Authenticator."""
        kinds = [reference.kind for reference in new.spec.identity_provider_refs]
        bundles = self._observer.releases.bundles(new.spec)
        if AWSIamConfig.resource.kind not in kinds or bundles is None:
            return
        entries = (
            bundle for bundle in bundles.spec.versions_bundles if bundle.kube_version == new.spec.kubernetes_version
        )
        distros = (self._observer.releases.distro(bundle.eks_d.name) for bundle in entries)
        for distro in distros:
            if distro is not None and not _has_authenticator(distro):
                field = f"spec.identityProviderRefs[{kinds.index(AWSIamConfig.resource.kind)}].kind"
                message = messages.no_authenticator(distro.metadata.name)
                yield Violation(field, AWSIamConfig.resource.kind, "", message)


def _groups(spec: Tree) -> list[Tree]:
    return spec.get("workerNodeGroupConfigurations") or []


def _has_authenticator(release: DistroRelease) -> bool:
    try:
        return bool(distro_of(release).authenticator)
    except IncompleteDistro:  # the controller says so
        return True


def _kubernetes_violations(
    old: eksa.Cluster, new: eksa.Cluster, capi_objects: ClusterAPIObjects, bundles: Bundles | None
) -> Iterable[Violation]:
    """Check Kubernetes versions against the last spec and the machines. Unchanged versions are not checked again."""
    if changes.versions(old.spec) == changes.versions(new.spec):
        return
    offered = kubernetes_versions(bundles) if bundles is not None else ()
    steps = list(changes.kubernetes(old.spec, new, downgrade.allowed_downgrades(capi_objects), offered))
    yield from steps
    at = running(capi_objects)
    before = set(changes.too_early(old, at)) if not steps else ()
    yield from (violation for violation in changes.too_early(new, at) if not steps and violation not in before)


def _is_same(old: eksa.Cluster, new: eksa.Cluster) -> bool:
    """True if a write changes nothing that admission checks: changes of finalizers, labels and the like always pass."""
    return old.spec == new.spec and (_is_paused(new) or not _is_paused(old) or not is_self_managed(new))


def _is_a_controller(user: User) -> bool:
    """True for service accounts, except those of Kubernetes' own controllers, which delete with a namespace."""
    return user.name.startswith(_ACCOUNTS) and not user.name.startswith(f"{_ACCOUNTS}kube-system:")


def _manages_itself(cluster: Object) -> bool:
    try:
        return is_self_managed(read(cluster))
    except msgspec.ValidationError:
        return False


def _is_paused(cluster: eksa.Cluster) -> bool:
    """True if a user paused it, or it is being moved away.

    The pause of a command, which ends with the change that it writes, allows nothing.
    """
    annotations = cluster.metadata.annotations
    is_paused = PAUSED_ANNOTATION in annotations and not names.is_paused_by_command(annotations)
    return is_paused or DELETE_FOR_MOVE in annotations


def _concealed(asked: Object, response: AdmissionResponse) -> AdmissionResponse:
    """The response without secrets of the object: logs and histories keep responses."""
    if not (response.message or response.warnings):
        return response
    secrets = redaction.secrets_of(asked.tree)
    return replace(
        response,
        message=redaction.concealed(response.message, secrets),
        causes=tuple(replace(cause, message=redaction.concealed(cause.message, secrets)) for cause in response.causes),
        warnings=tuple(redaction.concealed(warning, secrets) for warning in response.warnings),
    )
