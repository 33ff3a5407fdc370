"""Rules about the release of a Cluster: `spec.eksaVersion`, and `spec.bundlesRef`, which it replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import semver

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.releases.release import Bundles
from espalier.api.eksa.vocabulary import sentences
from espalier.api.eksa.vocabulary.group import SKIP_EKSA_VERSION_SKEW_CHECK_ANNOTATION
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.text import versions
from espalier.api.text.violations import Violation
from espalier.clusters.design.provider import Provider
from espalier.clusters.design.render_input import kubernetes_versions
from espalier.clusters.observe.rules import messages
from espalier.releases import image_at

MAXIMUM_SKEW = 2
"""The number of minor versions that a workload cluster may be behind its management cluster."""

_VERSION, _BUNDLES = "spec.eksaVersion", "spec.bundlesRef"


def fields(old: eksa.Cluster | None, new: eksa.Cluster, management: eksa.Cluster | None) -> Iterator[Violation]:
    """Rules for setting, exchanging and clearing the two fields; `old` is None for a new cluster."""
    if old is None:
        yield from _new(new.spec, management)
        return
    before, after = old.spec, new.spec
    both = before.bundles_ref is None and after.eksa_version  # reported by the rules about a single Cluster
    if after.bundles_ref is not None and after.bundles_ref != before.bundles_ref and not both:
        allowed = before.bundles_ref.name if before.bundles_ref else "nothing"
        yield Violation(_BUNDLES, after.bundles_ref.name, allowed, sentences.BUNDLES_CHANGED)
    if before.eksa_version and not after.eksa_version:
        yield Violation(_VERSION, "nothing", before.eksa_version, sentences.VERSION_UNSET)
    elif before.bundles_ref is not None and after.bundles_ref is None and not after.eksa_version:
        yield Violation(_BUNDLES, "nothing", before.bundles_ref.name, sentences.BUNDLES_CLEARED_ALONE)


def _new(spec: eksa.ClusterSpec, management: eksa.Cluster | None) -> Iterator[Violation]:
    if spec.bundles_ref is not None and not spec.eksa_version:
        yield Violation(_BUNDLES, spec.bundles_ref.name, "nothing", sentences.NEW_WITH_BUNDLES)
    elif not spec.eksa_version and management is not None and not management.spec.eksa_version:
        yield Violation(_VERSION, "nothing", "", messages.NO_VERSION)


def version(
    old: eksa.Cluster | None,
    new: eksa.Cluster,
    *,
    known: Sequence[str],
    management: eksa.Cluster | None,
    is_made: bool = False,
    is_unused: bool = False,
) -> Iterator[Violation]:
    """Violations of a new version. `known` are the versions of existing EKSAReleases; `management` is None for a
    self-managed cluster; `is_made`: the cluster has Cluster API objects; `is_unused`: all of these are still those of
    the wanted version.

    An unchanged version is not checked again: an accepted cluster continues whatever happens to others.
    """
    text = new.spec.eksa_version
    before = old.spec.eksa_version if old is not None else None
    if not text or text == before:
        return
    wanted = parsed(text)
    if wanted is None:
        yield Violation(_VERSION, text, "a version like v0.26.0", sentences.NOT_SEMVER)
        return
    if text not in known:
        allowed = ", ".join(fitting(new.spec, known, management)) or "none"
        yield Violation(_VERSION, text, allowed, messages.UNKNOWN_RELEASE)
    if old is not None:
        yield from _step(old, new, wanted, is_made=is_made, is_unused=is_unused)
    yield from skew(new.spec, wanted, management)


def skew(
    spec: eksa.ClusterSpec, release: semver.Version | None, management: eksa.Cluster | None
) -> Iterator[Violation]:
    """Violations of the version skew between a cluster and its management cluster, whichever was created first.

    `release` is that of its Bundles when it has no eksaVersion; None if unknown.
    """
    manager = parsed(management.spec.eksa_version) if management is not None else None
    if management is not None and manager is not None and release is not None:
        field = _VERSION if spec.bundles_ref is None else _BUNDLES
        text = spec.eksa_version if spec.bundles_ref is None else spec.bundles_ref.name
        yield from _skew(field, text or "", release, management, manager)


def fitting(spec: eksa.ClusterSpec, known: Sequence[str], management: eksa.Cluster | None) -> list[str]:
    """The versions, of those that are known, that the skew to the management cluster permits."""
    return [version for version in known if not any(skew(spec, parsed(version), management))]


def managed(
    old: eksa.Cluster | None,
    new: eksa.Cluster,
    workloads: Iterable[tuple[eksa.Cluster, semver.Version | None]],
    names_of: Callable[[Iterable[object]], str] = messages.listed,
) -> Iterator[Violation]:
    """Violations of the version skew between a management cluster's new release and the clusters that it manages.

    `old` is None when the record is created (again). A change that reduces an existing skew is allowed. `names_of`
    formats the clusters in question.
    """
    text = new.spec.eksa_version
    wanted = parsed(text)
    before = parsed(old.spec.eksa_version) if old is not None else None
    if not text or wanted is None or wanted == before:
        return
    known = [(cluster, at) for cluster, at in workloads if at is not None]
    late = (
        [(cluster, at) for cluster, at in known if distance(at, wanted) > MAXIMUM_SKEW]
        if _is_raised(before, wanted)
        else []
    )
    early = [(cluster, at) for cluster, at in known if at > wanted] if _is_raised(wanted, before) else []
    if late:
        yield Violation(_VERSION, text, "", messages.left_behind(names_of(_at(late)), MAXIMUM_SKEW))
    if early:
        yield Violation(_VERSION, text, "", messages.overtaken(names_of(_at(early))))


def components(spec: eksa.ClusterSpec, provider: Provider, bundles: Bundles | None) -> Iterator[Violation]:
    """Bundles without components that clusters of a provider need: those from before the provider was supported."""
    entries = bundles.spec.versions_bundles if bundles is not None else []
    asked = kubernetes_versions(spec)
    lacking = [
        name
        for entry in entries
        if entry.kube_version in asked
        for name in provider.images
        if image_at(entry, name) is None
    ]
    if bundles is not None and lacking:
        field = _VERSION if spec.bundles_ref is None else _BUNDLES
        kind, parts = provider.links.datacenter.kind, ", ".join(dict.fromkeys(lacking))
        yield Violation(field, spec.eksa_version or bundles.metadata.name, "", messages.lacks_components(kind, parts))


def images(spec: eksa.ClusterSpec, lacking: Sequence[str], bundles: Bundles | None) -> Iterator[Violation]:
    """Images of Bottlerocket that a Cluster needs and its release does not have."""
    if bundles is not None and lacking:
        field = _VERSION if spec.bundles_ref is None else _BUNDLES
        release, parts = spec.eksa_version or bundles.metadata.name, ", ".join(lacking)
        yield Violation(field, release, "", messages.lacks_images_of_bottlerocket(parts))


def _is_raised(low: semver.Version | None, high: semver.Version | None) -> bool:
    return low is None or high is None or low < high


def warnings(new: eksa.Cluster, management: eksa.Cluster | None) -> Iterator[str]:
    """Warnings about deprecated fields, and about releases that will block upgrades."""
    wanted = parsed(new.spec.eksa_version)
    manager = parsed(management.spec.eksa_version) if management is not None else None
    if management is None or wanted is None or manager is None:
        return
    steps = distance(wanted, manager)
    if 0 < steps <= MAXIMUM_SKEW:
        yield messages.behind(f"v{wanted}", steps, _of(management))


def parsed(text: str | None) -> semver.Version | None:
    """An eksaVersion as a semantic version; None if it is not one."""
    return versions.parsed(text) if text and text.startswith("v") else None


def distance(low: semver.Version, high: semver.Version) -> int:
    """The number of minor versions from `low` to `high`; another major version counts as very far."""
    return (high.major - low.major) * 1000 + high.minor - low.minor


def _step(
    old: eksa.Cluster, new: eksa.Cluster, wanted: semver.Version, *, is_made: bool, is_unused: bool
) -> Iterator[Violation]:
    """EKS Anywhere's rule with its exceptions: the annotation, and the return from an unusable or unused release.

    An upgrade starts only when the previous one is complete: no third release while between two.
    """
    before = parsed(old.spec.eksa_version)
    if before is None or SKIP_EKSA_VERSION_SKEW_CHECK_ANNOTATION in new.metadata.annotations:
        return
    steps = distance(before, wanted)
    here, following = f"v{before.major}.{before.minor}", f"v{before.major}.{before.minor + 1}"
    allowed = f"releases of {here} and {following}"
    if wanted.major != before.major:
        yield Violation(_VERSION, f"v{wanted}", allowed, messages.MAJOR)
    elif steps > 1:
        yield Violation(_VERSION, f"v{wanted}", allowed, messages.too_many_minors(following))
    elif steps < 0 and not is_unused and old.status.failure_reason != Reason.EKSA_VERSION_INVALID:
        yield Violation(_VERSION, f"v{wanted}", allowed, messages.release_downgrade(f"v{before}"))
    elif steps == 1 and is_made and old.status.observed_generation != old.metadata.generation:
        yield Violation(_VERSION, f"v{wanted}", f"releases of {here}", messages.unfinished(f"v{before}"))


def _skew(
    field: str, text: str, wanted: semver.Version, management: eksa.Cluster, manager: semver.Version
) -> Iterator[Violation]:
    lowest = f"v{manager.major}.{max(manager.minor - MAXIMUM_SKEW, 0)}"
    allowed = f"releases of {lowest} up to {management.spec.eksa_version}"
    if wanted > manager:
        yield Violation(field, text, allowed, messages.ahead(_of(management)))
    elif distance(wanted, manager) > MAXIMUM_SKEW:
        yield Violation(field, text, allowed, messages.too_far_behind(_of(management), MAXIMUM_SKEW))


def _of(cluster: eksa.Cluster) -> str:
    return f"{cluster.metadata.name} ({cluster.spec.eksa_version})"


def _at(clusters: Sequence[tuple[eksa.Cluster, semver.Version]]) -> list[str]:
    return [f"{cluster.metadata.namespace}/{cluster.metadata.name} (v{at})" for cluster, at in clusters]
