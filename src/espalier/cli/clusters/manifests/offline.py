"""Clusters of manifests without a management cluster: assumes one of the newest release."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from espalier.api.capi import cluster as capi
from espalier.api.core import ConfigMap
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa import gitops
from espalier.api.eksa.cluster import Cluster, ClusterSpec, ManagementCluster
from espalier.api.eksa.parts.fields import Ref
from espalier.api.eksa.vocabulary.group import BOOTSTRAP, MANAGEMENT_CLUSTER, PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.kinds import KubeObject
from espalier.api.manifests.manifests import Document
from espalier.api.meta import ObjectMeta, Tree
from espalier.api.resource import Key, Resource
from espalier.api.text.violations import ManifestError, Problem, Violation
from espalier.cli.clusters.manifests import absent_objects, documents, placeholders
from espalier.cli.kit.failures import Failure
from espalier.clusterapi.infrastructures import templates
from espalier.clusters.design import cni
from espalier.clusters.design.provider import Providers, RenderInput, bottlerocket_groups, needed
from espalier.clusters.design.secrets import credentials
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.rules import releases as rules
from espalier.clusters.observe.scope import ClusterAPIObjects, Scope
from espalier.clusters.plan import plan, workload_objects
from espalier.clusters.preview.previews import Preview, Previews
from espalier.clusters.report import validity
from espalier.kube.objects import Object, to_bytes
from espalier.releases import Releases
from espalier.runtime.caches.snapshot import Snapshot

_OBJECT_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")
"""Names that an object of the management cluster may have: no other one can be there."""
_KNOWN_LATER = (Reason.LINKED_OBJECTS_NOT_CHECKED, Reason.VALUES_NOT_RESOLVED, Reason.CREDENTIALS_NOT_PERMITTED)
"""Reasons for waiting for a provider's answer, or for Secrets of the management cluster."""


class Examined(NamedTuple):
    """Facts about a manifest that need no management cluster."""

    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    later: tuple[str, ...] = ()
    """Facts that only a management cluster knows."""


class OfflineManager:
    """Renders the objects of manifests. Only the contents of the manifests and the releases exist."""

    def __init__(
        self,
        providers: Providers,
        documents_: Sequence[Document],
        releases: Path | None,
        namespace: str,
        given: Sequence[absent_objects.Given] = (),
        *,
        is_complete: bool = True,
    ) -> None:
        """`given` are all objects of the manifest, also those of which nothing can be made. Unless it `is_complete`,
        objects that it lacks may be in the management cluster.
        """
        self._is_complete = is_complete
        self._providers = providers
        self._variables = _Variables()
        offered = self._offered = Releases.load(releases)
        self._documents, self._given = documents_, given
        self._trees = [tree for _, tree in documents.in_namespace(documents_, namespace)]
        snapshot = self._snapshot = Snapshot()
        self._observer = ClusterObserver(snapshot, providers=providers)
        snapshot.fill([*_objects(offered), _EKS_ANYWHERE])
        self._previews = Previews(snapshot, self._observer, {}, now=datetime.now(UTC))

    def objects(self, document: Document, *, workload: bool) -> list[Tree]:
        """The objects for one Cluster, in the order of writing; or those for its `workload` cluster.

        Raises `ManifestError` with everything that admission would refuse, and `Failure` for what can't be rendered.
        """
        render_input, nothing = self.render_input(document), ClusterAPIObjects()
        made: list[Tree]
        if workload:
            made = [manifest.body for manifest in (*cni.objects(render_input), *workload_objects.wanted(render_input))]
        else:
            naming = _Templates()
            wanted = [
                *plan.control_plane(render_input, nothing, naming),
                *plan.worker_groups(render_input, nothing, naming),
            ]
            made = [msgspec.to_builtins(object_) for object_ in wanted]
        return [tree for at, tree in enumerate(made) if tree not in made[:at]]

    @property
    def variables(self) -> list[str]:
        """The environment variables whose placeholders stand for credentials in what was rendered."""
        return list(self._variables.asked)

    def render_input(self, document: Document) -> RenderInput:
        """The render input for the objects of one Cluster. Raises as `objects` does."""
        key, preview = self._preview(document)
        if preview.refusals:
            raise ManifestError(_refusals(document, preview))
        scope = self._observer.scope(key)
        if scope is not None and scope.unresolved and preview.is_unknown:
            raise Failure(f"Cluster {key}: {'; '.join(scope.unresolved)}: {_RESOLVED_BY_PROVIDERS}")
        if preview.stops or scope is None or scope.render_input is None:
            raise Failure(f"Cluster {key}: {preview.stops}")
        return scope.render_input

    def examined(self, document: Document, *, is_refused: bool = False) -> Examined:
        """The refusals of admission for one Cluster, and the waits of a manager that only a manifest can end.

        Rendering takes objects for granted that an API server accepts. What it makes of those that are refused already
        (`is_refused`) says nothing if it fails.
        """
        try:
            return self._examined(document)
        except Exception:
            if not is_refused:
                raise
            return Examined((), ())

    def _examined(self, document: Document) -> Examined:
        assumed, unknown = self._assumed(document.tree)
        key, preview = self._preview(replace(document, tree=assumed))
        with_linked = self._linked_violations(assumed)
        scope = self._observer.scope(key) if not preview.refusals else None
        if scope is None:
            absent = self._observer.linked.absent(msgspec.convert(assumed, Cluster)) if self._is_complete else []
            refused = [refusal.field for refusal in preview.refusals]
            named = absent_objects.violations(absent, given=self._given, refused=refused)
            located = [self._located(document, violation) for violation in (*with_linked, *named)]
            return Examined((*_refusals(document, preview), *located), preview.warnings, tuple(unknown))
        missing = absent_objects.violations(scope.missing, given=self._given)
        problems = missing if self._is_complete else []
        others = [] if missing else [wait.message for wait in validity.problems_beside_content(scope)]
        reason, _, message = preview.stops.partition(": ")
        if reason not in ("", Reason.MISSING_DEPENDENT_OBJECTS, *_KNOWN_LATER) and not with_linked:
            others += [message] if message not in others else []
        problems = [*problems, *with_linked, *(Violation("", "", "", sentence) for sentence in others)]
        later = [*unknown, *_of_the_build(scope)]
        later += [f"{reference.field}: {reference.what}" for reference in scope.missing if reference.is_credentials]
        later += (
            [message]
            if reason in _KNOWN_LATER and not any(reference.is_credentials for reference in scope.missing)
            else []
        )
        later += [secret for secret in self._secrets_of(scope) if secret not in later]
        return Examined(tuple(self._located(document, problem) for problem in problems), preview.warnings, tuple(later))

    def _linked_violations(self, tree: Tree) -> list[Violation]:
        """The violations of a Cluster together with its linked objects, also of one that is refused by itself."""
        cluster = msgspec.convert(tree, Cluster)
        children = self._observer.linked.children(cluster.metadata.namespace, cluster.spec)
        with suppress(LookupError, ValueError):  # for rules about linked objects, the Cluster may be anything
            return list(validity.linked_violations(cluster, self._providers, children))
        return []

    def _located(self, cluster: Document, violation: Violation) -> Problem:
        return documents.located(self._documents, cluster, violation)

    def _assumed(self, tree: Tree) -> tuple[Tree, list[str]]:
        """The Cluster, with the newest release instead of one that only the management cluster may have; and what only
        that knows.
        """
        spec, unknown = tree["spec"], []
        if _manager(tree) == tree["metadata"]["name"] and PAUSED_ANNOTATION not in _annotations(tree):
            unknown.append(
                f"cluster {tree['metadata']['name']} manages itself: `espalier create cluster -f FILE` creates it, and "
                "an API server refuses it"
            )
            spec = {**spec, "managementCluster": {"name": BOOTSTRAP}}
        manager = _manager({**tree, "spec": spec})
        newest = self._offered.newest().version
        version, bundles, git_ops = spec.get("eksaVersion"), spec.get("bundlesRef"), spec.get("gitOpsRef")
        if version and not bundles and version not in self._offered.versions and rules.parsed(version) is not None:
            unknown.append(
                f"spec.eksaVersion: whether management cluster {manager} has release {version}, and what it contains; "
                f"checked as {newest} (--releases names other releases)"
            )
            spec = {**spec, "eksaVersion": newest}
        elif bundles and not version and _OBJECT_NAME.fullmatch(str(bundles.get("name"))):
            unknown.append(
                f"spec.bundlesRef: whether management cluster {manager} has these Bundles, and a cluster that uses "
                f"them; checked as {newest}"
            )
            spec = {**{field: value for field, value in spec.items() if field != "bundlesRef"}, "eksaVersion": newest}
        elif version and version != newest:
            unknown.append(f"spec.eksaVersion: whether the release of management cluster {manager} fits {version}")
        if git_ops and not self._is_given(tree, manager):
            unknown.append(
                f"spec.gitOpsRef: whether management cluster {manager} has this GitOps configuration, or one with the "
                "same content"
            )
        return {**tree, "spec": spec}, unknown

    def _is_given(self, tree: Tree, name: str) -> bool:
        """True if the manifest has this Cluster beside another one."""
        return self._has(Cluster.resource.kind, tree["metadata"]["namespace"], name)

    def _has(self, kind: str, namespace: str, name: str) -> bool:
        named = (kind, namespace, name)
        return any(
            (tree["kind"], tree["metadata"]["namespace"], tree["metadata"]["name"]) == named for tree in self._trees
        )

    def _management_cluster(self, tree: Tree) -> list[Object]:
        """A management cluster that a Cluster fits, with the GitOps configuration that it names, for one that the
        manifest does not have: whether the real one is like that is not known."""
        name, spec = _manager(tree), tree["spec"]
        if name == tree["metadata"]["name"] or self._is_given(tree, name):
            return []
        namespace, git_ops = tree["metadata"]["namespace"], spec.get("gitOpsRef")
        version = spec.get("eksaVersion") if spec.get("eksaVersion") in self._offered.versions else None
        made_up = Cluster(
            metadata=ObjectMeta(name=name, namespace=namespace, annotations={PAUSED_ANNOTATION: "true"}),
            spec=ClusterSpec(
                management_cluster=ManagementCluster(name=name),
                eksa_version=version or self._offered.newest().version,
                git_ops_ref=msgspec.convert(git_ops, Ref) if git_ops else None,
            ),
        )
        objects: list[KubeObject] = [made_up]
        kind = next((kind_ for kind_ in gitops.KINDS if git_ops and kind_.resource.kind == git_ops.get("kind")), None)
        if kind is not None and not self._has(kind.resource.kind, namespace, git_ops["name"]):
            objects.append(kind(metadata=ObjectMeta(name=git_ops["name"], namespace=namespace)))
        return [Object(to_bytes(object_)) for object_ in objects]

    def _secrets_of(self, scope: Scope) -> Iterator[str]:
        """The Secrets that the cluster needs in the management cluster, for which others stand here."""
        reference = scope.spec.datacenter_ref
        provider = self._providers.get(reference.kind) if reference is not None else None
        if provider is None or scope.missing:
            return
        namespace = scope.key.namespace
        depend = provider.links.depend(scope.cluster, [child for _, child in scope.children])
        sent = (dependency for dependency in depend if dependency.server and not dependency.optional)
        for secret in needed(sent):
            name = str(Key(SYSTEM_NAMESPACE, secret.name))
            yield f"{secret.places}: {credentials.advice(name, servers=secret.servers, namespace=namespace)}"

    def _preview(self, document: Document) -> tuple[Key, Preview]:
        tree = document.tree
        key = Key(tree["metadata"]["namespace"], tree["metadata"]["name"])
        # Each cluster is checked separately, in the management cluster that it names.
        manager = _manager(tree)
        for object_ in self._management_cluster(tree):
            self._snapshot.put(object_)
        named = ConfigMap(
            metadata=ObjectMeta(name=MANAGEMENT_CLUSTER, namespace=SYSTEM_NAMESPACE),
            data={"namespace": key.namespace, "name": manager},
        )
        self._snapshot.put(Object(to_bytes(named)))
        linked = documents.linked(tree, self._trees, self._providers)
        for provider in self._providers.values():
            for secret in provider.environment_secrets(self._variables, [*linked, tree]):
                self._snapshot.put(Object(to_bytes(secret)))
        return key, self._previews.of_change(key, [*linked, tree])


_RESOLVED_BY_PROVIDERS = (
    "only the infrastructure knows what a pattern or a field that is left out stands for, and this command asks none; "
    "write the value itself, or use `espalier plan` once the object exists"
)


class _Templates:
    """Names templates as a manager does that writes one after the other: those of a group whose first name the control
    plane has get the next one, unless they have the same content."""

    def __init__(self) -> None:
        self._contents: dict[Resource, dict[str, Tree]] = {}

    def __call__(self, _nothing: ClusterAPIObjects, wanted: KubeObject, _referenced: str | None) -> str:
        spec: Tree = msgspec.to_builtins(wanted)["spec"]
        made = self._contents.setdefault(wanted.resource, {})
        name = templates.choose_name(wanted.metadata.name, None, made, lambda name: made[name] == spec)
        made[name] = spec
        return name


class _Variables(Mapping[str, str]):
    """An environment in which each variable has its name as value: nothing printed contains real credentials."""

    def __init__(self) -> None:
        self.asked: dict[str, None] = {}
        """The variables that were read, in this order."""

    def __getitem__(self, name: str) -> str:
        self.asked[name] = None
        return placeholders.placeholder(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_EKS_ANYWHERE = Object(to_bytes(crd_of(capi.Cluster)))
"""A CRD of EKS Anywhere's build of Cluster API, so that every field is rendered."""


def _manager(tree: Tree) -> str:
    return str((tree["spec"].get("managementCluster") or {}).get("name") or tree["metadata"]["name"])


def _annotations(tree: Tree) -> Tree:
    return tree["metadata"].get("annotations") or {}


def _of_the_build(scope: Scope) -> Iterator[str]:
    """The needs of a cluster that only EKS Anywhere's build of Cluster API meets."""
    reference = scope.spec.datacenter_ref
    provider = scope.providers.get(reference.kind) if reference is not None else None
    fields = [
        f"{field}.machineGroupRef"
        for field in bottlerocket_groups(provider, scope.spec, [child for _, child in scope.children])
    ]
    if scope.spec.external_etcd_configuration is not None:
        fields.insert(0, "spec.externalEtcdConfiguration")
    if fields:
        yield f"{', '.join(fields)}: whether the management cluster has EKS Anywhere's build of Cluster API"


def _refusals(document: Document, preview: Preview) -> list[Problem]:
    return [document.problem(Violation.of(refusal.field, refusal.message)) for refusal in preview.refusals]


def _objects(releases: Releases) -> list[Object]:
    return [Object(to_bytes(object_)) for object_ in releases.objects()]
