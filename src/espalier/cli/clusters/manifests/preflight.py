"""The rules of admission on the way to the API server: before anything is sent, and all violations at once.

By the functions that the webhooks call, on what can be read from the server. What can't be read is left to the server,
which judges in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.eksa.vocabulary.group import MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE
from espalier.api.manifests.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.violations import ManifestError, Problem, Violation
from espalier.cli.clusters import chosen_release
from espalier.cli.clusters.manifests import (
    absent_credentials,
    absent_objects,
    crd_rules,
    credential_secrets,
    documents,
    examination,
)
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection, variable_files
from espalier.cli.kit.failures import Failure
from espalier.clusters.design.provider import Provider, Providers
from espalier.clusters.design.secrets.credential_files import Unreadable
from espalier.clusters.observe import git_ops
from espalier.clusters.observe.management import named_by
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.rules import changes, content, messages
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.clusters.observe.scope import is_self_managed, read
from espalier.clusters.preview import apply, reading
from espalier.clusters.preview.previews import Previews
from espalier.clusters.report import validity
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, KubeError, NotFound
from espalier.kube.objects import Object, to_bytes
from espalier.providers.kinds import CATALOG
from espalier.releases import Releases, install, release_name
from espalier.runtime.caches.snapshot import Snapshot


async def bring_credentials(
    providers: Providers, client: Client, manifest: Sequence[Tree], environment: Mapping[str, str]
) -> str:
    """Write the Secrets with the credentials that environment variables give. Returns what was done, if anything.

    Raises `Failure` without the right to it, where a Secret that servers of other clusters get would have other
    credentials, where one variable of several that belong together is missing, or when a file that a variable names
    can't be read.
    """
    kinds = {tree["kind"] for tree in manifest}
    written = []
    for provider in (candidate for kind, candidate in providers.items() if kind in kinds):
        _require_joint_variables(environment, provider.joint_variables)
        for secret in _secrets_of(provider, environment, manifest):
            alternative = provider.names_credentials
            written.append(await credential_secrets.bring(providers, client, secret, alternative=alternative))
    return ", ".join(written)


async def check_credentials(
    providers: Providers, client: Client, manifest: Sequence[Tree], environment: Mapping[str, str]
) -> None:
    """The Secrets that new Clusters of a manifest need exist, or environment variables give them. Raises `Failure` with
    the variables that are missing, or for a file that one of them names."""
    kinds = {tree["kind"] for tree in manifest}
    of_manifest = [provider for kind, provider in providers.items() if kind in kinds]
    environment_secrets = [
        secret for provider in of_manifest for secret in _secrets_of(provider, environment, manifest)
    ]
    await absent_credentials.check(providers, client, manifest, environment_secrets, environment)


def _secrets_of(provider: Provider, environment: Mapping[str, str], manifest: Sequence[Tree]) -> list[Tree]:
    try:
        return list(
            provider.environment_secrets(variable_files.with_content(environment, provider.file_variables), manifest)
        )
    except Unreadable as error:
        raise Failure(f"{error}. No credentials were written; correct it, or unset the variable") from None


def _require_joint_variables(environment: Mapping[str, str], groups: Sequence[Sequence[str]]) -> None:
    for group in groups:
        given = [name for name in group if environment.get(name)]
        missing = [name for name in group if name not in given]
        if given and missing:
            raise Failure(f"{', '.join(given)} is set, and {', '.join(missing)} is not: set it as well, or neither")


async def install_releases(client: Client, needed: str | None, releases: Releases | None = None) -> tuple[str, ...]:
    """Create the releases of this program that are missing, and overwrite none.

    Returns what could not be done for want of a right, and so is left to the manager. Raises `Failure` when the release
    that is `needed` is not there and may not be created. Where the kinds are not there, the server will say so.
    """
    wanted = (releases or Releases.load()).objects()
    missing: set[str] = set()
    try:
        for kind, namespace in ((EKSARelease, None), (DistroRelease, SYSTEM_NAMESPACE)):
            there = {item.name for item in (await client.list(kind.resource, namespace)).items}
            missing |= {release.metadata.name for release in wanted if isinstance(release, kind)} - there
    except NotFound:
        return ()
    except Forbidden as error:
        if not missing:
            return (f"the manager has to check whether the releases of this program are installed: {error}",)
    if not missing:
        return ()
    try:
        await install(client, wanted)
    except NotFound:
        return ()
    except Forbidden as error:
        if needed is not None and release_name(needed) in missing:
            raise Failure(
                f"release {needed} is not in the management cluster, and may not be created there: {error}; ask "
                "somebody with permission to run `espalier releases import`, or run a manager of this version"
            ) from None
        return (f"releases of this program are missing, and the manager has to install them: {error}",)
    return ()


_SELF_MANAGED = (
    "espalier upgrades only clusters that another cluster manages, and management clusters that it created: for one of "
    "those, give its kubeconfig. A local environment gets the release of "
    "the espalier that runs it: `espalier down`, then `espalier up` with the new one. Upgrade any other management "
    "cluster with the tool that created it, and its manager with `espalier manifests`"
)


def unmanaged(cluster: Document, tree: Tree) -> list[Problem]:
    """A manifest is of a cluster that another one manages, or what helps. `tree` is what can be read."""
    name = str((tree["spec"].get("managementCluster") or {}).get("name") or "")
    if name in ("", cluster.name):
        message = f'cluster "{cluster.name}" is self-managed, and {_SELF_MANAGED}'
        allowed = "the name of another cluster that manages this one"
        return [cluster.problem(Violation("spec.managementCluster.name", name or "nothing", allowed, message))]
    return []


async def check(
    providers: Providers,
    flag: flags.Connection,
    documents_: Sequence[Document],
    known: Sequence[Problem],
    *,
    pushed_as: str = "",
) -> None:
    """Raise `ManifestError` with everything that is known to be wrong with a manifest, if anything is.

    `known` are the problems found in it; for a manifest that `espalier create|upgrade cluster` sends with this release
    (`pushed_as`), what these refuse counts as well. With problems, the rest is checked against the management cluster
    here, as far as it answers; a correct manifest is checked when it is sent.
    """
    clusters = [(parsed, tree) for parsed in documents_ if (tree := documents.readable(parsed)) is not None]
    problems = list(known)
    if pushed_as:
        for document, tree in clusters:
            more = [*unmanaged(document, tree), *chosen_release.problems(document, tree, pushed_as)]
            problems += [problem for problem in more if not documents.is_reported(problem.violation.field, known)]
    if not problems:
        return
    readable = examination.parts(documents_, problems)
    with suppress(KubeError, Failure, OSError, TimeoutError, msgspec.MsgspecError):
        async with connection.connect(flag) as connected, asyncio.timeout(_PATIENCE):
            for tree in (tree for _, tree in documents.in_namespace(readable, connected.namespace)):
                if pushed_as and tree["kind"] == Cluster.resource.kind and tree["spec"].get("bundlesRef") is None:
                    tree["spec"]["eksaVersion"] = pushed_as
            problems, _ = await _examined(
                providers, connected.client, documents_, readable, problems, connected.namespace
            )
            raise ManifestError(problems)
    raise ManifestError(examination.alone(documents_, problems, None, _NAMESPACE, is_complete=False).problems)


_NAMESPACE = "default"
"""Where objects are taken to be if no management cluster answers: no rule depends on it."""
_PATIENCE = 5.0
"""Seconds for which a manifest with known problems is also checked against the management cluster."""


def check_is_managed(existing: Object) -> None:
    """A cluster that is there is managed by another one. Raises `Failure` that says what to do instead."""
    if is_self_managed(read(existing)):
        raise Failure(f"cluster {existing.key} is self-managed, whatever the manifest says, and {_SELF_MANAGED}")


async def check_deletable(client: Client, record: Key) -> None:
    """The record of a management cluster that is to be deleted manages nobody. Raises `Failure` with those it manages,
    or with the right that is missing to know them.

    Admission says the same; without it, the deletion would be taken, and waited for.
    """
    unknown = ""
    try:
        named = named_by(await client.get(CONFIG_MAP, MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE))
    except NotFound:
        named = record
    except Forbidden as error:
        named, unknown = record, f" (assumed to be the management cluster's: {error})"
    if named != record:
        return
    try:
        clusters = (await client.list(Cluster.resource)).items
    except Forbidden as error:
        raise Failure(
            f"cluster {record} is the record of a management cluster{unknown}, and whether it manages clusters is not "
            f"known: {error}; ask somebody with that permission to delete it"
        ) from None
    managed = [cluster.key for cluster in clusters if cluster.key != record and _manager(cluster) == record.name]
    if managed:
        raise Failure(f"cluster {record} can't be deleted{unknown}: {messages.manages(messages.listed(managed))}")


def _manager(cluster: Object) -> str:
    try:
        return read(cluster).spec.management_cluster.name
    except msgspec.ValidationError:
        return ""


async def judge(providers: Providers, client: Client, documents_: Sequence[Document]) -> tuple[str, ...]:
    """Raise `ManifestError` with everything for which one of these objects, as they are sent, would be refused.

    Returns what could not be read for want of a right, and so was left to the server.
    """
    problems, notices = await _examined(providers, client, documents_, documents_, (), "")
    if problems:
        raise ManifestError(problems)
    return notices


async def _examined(
    providers: Providers,
    client: Client,
    documents_: Sequence[Document],
    readable: Sequence[Document],
    known: Sequence[Problem],
    namespace: str,
) -> tuple[list[Problem], tuple[str, ...]]:
    """All problems of a manifest in a management cluster, and what could not be read there. `readable` are its
    documents without what the `known` problems are about.
    """
    trees, notices = [item.tree for item in readable], list[str]()
    problems: list[Problem] = []
    given = absent_objects.given_by(documents_, namespace)
    for document in (item for item in readable if item.kind == Cluster.resource.kind):
        refused, unread = await _refusals(providers, client, document.tree, trees, given)
        problems += [documents.located(readable, document, violation) for violation in refused]
        notices += unread
    rules = examination.against_crds(documents_, known, await _live(client, readable, namespace))
    return documents.merged(documents_, known, [*rules, *problems]), tuple(notices)


async def _live(client: Client, readable: Sequence[Document], namespace: str) -> crd_rules.Live:
    """The objects that documents would replace."""
    objects: dict[tuple[str, Key], Object] = {}
    unread: set[tuple[str, Key]] = set()
    live = crd_rules.Live(namespace, objects, unread)

    async def read_live(document: Document) -> None:
        resource, name = CATALOG.resource_of(document.api_version, document.kind), live.name(document)
        try:
            objects[name] = await client.get(resource, document.name, name[1].namespace or None)
        except NotFound:
            pass
        except Forbidden:
            unread.add(name)

    await asyncio.gather(*(read_live(document) for document in readable))
    return live


async def _refusals(
    providers: Providers, client: Client, cluster: Tree, beside: Sequence[Tree], given: Sequence[absent_objects.Given]
) -> tuple[list[Violation], tuple[str, ...]]:
    """Everything for which a Cluster would be refused, alone or with the objects that it links, or would wait for an
    object that neither the manifest nor the management cluster has; and what could not be read. `given` are all objects
    of the manifest.

    A GitOps configuration beside it in the manifest counts: it would be written first, and the Cluster refused then.
    """
    key = Key(cluster["metadata"]["namespace"], cluster["metadata"]["name"])
    version = cluster["spec"].get("eksaVersion")
    try:
        observed = await reading.read(
            client,
            [key],
            versions=[version] if version else [],
            manifests=[cluster],
            providers=providers,
            only_judges=True,
        )
    except NotFound:
        return _by_itself(providers, cluster), ()
    except Forbidden as error:
        notice = f"only its manifest was checked, the API server has to check the rest: {error}"
        return _by_itself(providers, cluster), (notice,)
    snapshot = Snapshot()
    observer = ClusterObserver(snapshot, providers=providers)
    snapshot.fill(observed.objects)
    return refusals(providers, snapshot, observer, cluster, beside, given), observed.notices


def refusals(
    providers: Providers,
    snapshot: Snapshot,
    observer: ClusterObserver,
    cluster: Tree,
    beside: Sequence[Tree],
    given: Sequence[absent_objects.Given],
) -> list[Violation]:
    """The same, from what was read: the one judgement of all commands that send a manifest or plan it.

    Afterwards the snapshot contains the objects that the Cluster links as they would be, so each snapshot judges a
    Cluster once.
    """
    previews = Previews(snapshot, observer, {}, now=datetime.now(UTC))
    for tree in beside:
        if any(tree["kind"] == kind.kind for kind in git_ops.KINDS):
            snapshot.put(_object(tree))
    before = previews.live(cluster)
    fixed = _fixed(before, cluster)
    refused = [refusal for refusal in previews.refusals(cluster) if not documents.is_part(refusal.field, fixed)]
    violations_ = [Violation.of(refusal.field, refusal.message) for refusal in refused]
    if previews.lacks_address(cluster):
        violations_.append(Violation(endpoint.FIELD, "", "", _ADDRESS_TAKEN))
    violations_ += _linked_violations(providers, observer, snapshot, before, cluster, beside)
    absent = previews.absent(cluster, before)
    violations_ += absent_objects.violations(absent, given=given, refused=[refusal.field for refusal in refused])
    return violations_


def _fixed(before: Object | None, cluster: Tree) -> set[str]:
    """The fields that can't be changed, and are: what else is wrong within them goes with the change."""
    with suppress(msgspec.ValidationError):
        if before is not None:
            return {
                violation.field
                for violation in changes.fixed(read(before).spec, msgspec.convert(cluster, Cluster).spec)
            }
    return set()


def _linked_violations(
    providers: Providers,
    observer: ClusterObserver,
    snapshot: Snapshot,
    before: Object | None,
    cluster: Tree,
    beside: Sequence[Tree],
) -> list[Violation]:
    """The violations of a Cluster together with the objects that it links, but for those that it had `before`.

    Afterwards the snapshot contains these objects as they would be.
    """

    def violations(tree: Tree) -> list[Violation]:
        with suppress(LookupError, ValueError):  # for rules about linked objects, the Cluster may be anything
            asked = msgspec.convert(tree, Cluster)
            children = observer.linked.children(asked.metadata.namespace, asked.spec)
            return list(validity.linked_violations(asked, providers, children, is_made=before is not None))
        return []

    known = violations(before.tree) if before is not None else []
    for tree in documents.linked(cluster, beside, providers):
        key = Key(tree["metadata"]["namespace"], tree["metadata"]["name"])
        live = snapshot.get(tree["apiVersion"], tree["kind"], key)
        snapshot.put(apply.applied(live, tree, now=datetime.now(UTC), by_espalier=True))
    return [violation for violation in violations(cluster) if violation not in known]


def _object(tree: Tree) -> Object:
    return Object(to_bytes({**tree, "metadata": {**tree["metadata"], "resourceVersion": "0"}}))


_ADDRESS_TAKEN = "another cluster uses this address, and it can't be changed later; choose a free address"


def _by_itself(providers: Providers, tree: Tree) -> list[Violation]:
    """The refusals that follow from the Cluster alone."""
    try:
        cluster = msgspec.convert(tree, Cluster)
    except msgspec.ValidationError:
        return []  # for a manifest that was read, only what the server knows better
    return [] if is_self_managed(cluster) else list(content.violations(cluster, providers))
