"""What the API server asks about Clusters before it stores them: defaults, violations, warnings."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from espalier.api import schema
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.group import PAUSED_ANNOTATION
from espalier.api.eksa.release import Bundles, EKSARelease
from espalier.api.schema import Violation
from espalier.clusters import names
from espalier.clusters.observe import Observer
from espalier.clusters.rules import changes, content, unsupported
from espalier.clusters.scope import is_self_managed, read
from espalier.kube.errors import StatusCause
from espalier.kube.objects import Object
from espalier.releases import kubernetes_versions
from espalier.runtime.admission import AdmissionRequest, AdmissionResponse
from espalier.runtime.webhooks import Webhooks

_PATH = "anywhere-eks-amazonaws-com-v1alpha1"
MUTATE_CLUSTER = f"/mutate-{_PATH}-cluster"
VALIDATE_CLUSTER = f"/validate-{_PATH}-cluster"
VALIDATE_RELEASE = f"/validate-{_PATH}-eksarelease"
VALIDATE_BUNDLES = f"/validate-{_PATH}-bundles"


class Admission:
    """The handlers. They look at caches alone."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def serve(self, webhooks: Webhooks) -> None:
        """Offer the handlers at their paths."""
        webhooks.handle(MUTATE_CLUSTER, self.default)
        webhooks.handle(VALIDATE_CLUSTER, self.validate)
        webhooks.handle(VALIDATE_RELEASE, validate_release)
        webhooks.handle(VALIDATE_BUNDLES, validate_bundles)

    def default(self, request: AdmissionRequest) -> AdmissionResponse:
        """Fill in what was left out, and nothing that was given."""
        if request.object is None:
            return AdmissionResponse()
        try:
            cluster = read(request.object)
        except msgspec.ValidationError:
            return AdmissionResponse()  # validation says what is wrong
        tree = request.object.tree
        spec = tree.setdefault("spec", {})
        for group in spec.get("workerNodeGroupConfigurations") or []:
            if not group.get("name") and len(spec["workerNodeGroupConfigurations"]) == 1:
                group["name"] = names.DEFAULT_GROUP
            if group.get("count") is None and not group.get("autoscalingConfiguration"):
                group["count"] = names.DEFAULT_WORKERS
        managed = not is_self_managed(cluster)
        if managed and request.operation == "CREATE" and not (spec.get("eksaVersion") or spec.get("bundlesRef")):
            management = self._observer.management(cluster)
            if management is not None and management.spec.eksa_version:
                spec["eksaVersion"] = management.spec.eksa_version
        return AdmissionResponse(changed=tree)

    def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        """Refuse what can't be made, all reasons at once."""
        if request.object is None:
            return AdmissionResponse()
        try:
            new = read(request.object)
            old = read(request.old) if request.old is not None else None
        except msgspec.ValidationError:
            return _refusal(request.object, schema.violations(eksa.Cluster, request.object.tree))
        if old is not None and (new.metadata.deletion_timestamp or _is_same(old, new)):
            return AdmissionResponse()
        violations = list(self._violations(old, new))
        warnings = tuple(unsupported.warnings(new.spec))
        if violations:
            return _refusal(request.object, violations, warnings)
        if is_self_managed(new):
            warnings = ("the cluster is self-managed and paused: this record of it is not acted on",)
        return AdmissionResponse(warnings=warnings)

    def _violations(self, old: eksa.Cluster | None, new: eksa.Cluster) -> Iterable[Violation]:
        if is_self_managed(new):
            yield from content.name_violations(new.metadata.name)
            if not _is_paused(new):
                name = new.spec.management_cluster.name or "nothing"
                yield Violation("spec.managementCluster.name", name, "", content.SELF_MANAGED)
            if old is not None and not is_self_managed(old) and not _is_paused(old):
                yield from changes.violations(old, new)
            return
        yield from content.violations(new)
        if old is None:
            yield from self._name_violations(new)
        elif not _is_paused(old):
            yield from changes.violations(old, new)
        yield from self._version_violations(new)

    def _name_violations(self, new: eksa.Cluster) -> Iterable[Violation]:
        for other in self._observer.namesakes(new):
            message = f"there is a cluster {other}; names of clusters are unique in all namespaces, choose another"
            yield Violation("metadata.name", new.metadata.name, "", message)

    def _version_violations(self, new: eksa.Cluster) -> Iterable[Violation]:
        """The Bundles of the cluster have its versions; without Bundles there is nothing to compare with."""
        bundles = self._observer.bundles_for(new)
        if bundles is None:
            return
        there = kubernetes_versions(bundles)
        release = new.spec.eksa_version or bundles.metadata.name
        message = f"release {release} does not have this Kubernetes version"
        if new.spec.kubernetes_version and new.spec.kubernetes_version not in there:
            yield Violation("spec.kubernetesVersion", new.spec.kubernetes_version, ", ".join(there), message)
        for index, group in enumerate(new.spec.worker_node_group_configurations):
            if group.kubernetes_version and group.kubernetes_version not in there:
                field = f"spec.workerNodeGroupConfigurations[{index}].kubernetesVersion"
                yield Violation(field, group.kubernetes_version, ", ".join(there), message)


def validate_release(request: AdmissionRequest) -> AdmissionResponse:
    """Facts of a release never change: clusters that name it would silently become others."""
    if request.object is None or request.old is None:
        return AdmissionResponse()
    if request.object.tree.get("spec") == request.old.tree.get("spec"):
        return AdmissionResponse()
    message = "the facts of a release don't change; create an EKSARelease for another version"
    return _refusal(
        request.object, [Violation("spec", "a change", request.old.decode(EKSARelease).spec.version, message)]
    )


def validate_bundles(request: AdmissionRequest) -> AdmissionResponse:
    """Bundles have each Kubernetes version once."""
    if request.object is None:
        return AdmissionResponse()
    try:
        bundles = request.object.decode(Bundles)
    except msgspec.ValidationError:
        return _refusal(request.object, schema.violations(Bundles, request.object.tree))
    seen: set[str] = set()
    violations = []
    for index, entry in enumerate(bundles.spec.versions_bundles):
        if entry.kube_version in seen:
            field = f"spec.versionsBundles[{index}].kubeVersion"
            violations.append(Violation(field, entry.kube_version, "", "the version is given twice"))
        seen.add(entry.kube_version)
    return _refusal(request.object, violations) if violations else AdmissionResponse()


def _is_same(old: eksa.Cluster, new: eksa.Cluster) -> bool:
    """Whether a write changes nothing that matters here: finalizers, labels and the like always pass."""
    return old.spec == new.spec and (_is_paused(new) or not _is_paused(old) or not is_self_managed(new))


def _is_paused(cluster: eksa.Cluster) -> bool:
    return PAUSED_ANNOTATION in cluster.metadata.annotations


def _refusal(object_: Object, violations: list[Violation], warnings: tuple[str, ...] = ()) -> AdmissionResponse:
    causes = tuple(
        StatusCause(
            reason="FieldValueInvalid",
            message=str(violation).removeprefix(f"{violation.field}: "),
            field=violation.field,
        )
        for violation in violations
    )
    text = "; ".join(map(str, violations)) if len(violations) == 1 else "".join(f"\n* {one}" for one in violations)
    message = f'{object_.kind} "{object_.name}" is refused: {text}'
    return AdmissionResponse.refuse_fields(message, causes, warnings)
