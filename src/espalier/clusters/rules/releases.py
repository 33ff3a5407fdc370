"""Rules about the release of a Cluster: `spec.eksaVersion`, and `spec.bundlesRef`, which it replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import semver

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa import sentences
from espalier.api.eksa.group import SKIP_EKSA_VERSION_SKEW_CHECK_ANNOTATION
from espalier.api.violations import Violation
from espalier.clusters import names
from espalier.clusters.rules import messages

MAXIMUM_SKEW = 2
"""How many minor versions a workload cluster may be behind its management cluster."""

_VERSION, _BUNDLES = "spec.eksaVersion", "spec.bundlesRef"


def fields(old: eksa.Cluster | None, new: eksa.Cluster, management: eksa.Cluster | None) -> Iterator[Violation]:
    """How the two fields may be set, exchanged and cleared; `old` is None for a new cluster."""
    if old is None:
        yield from _new(new.spec, management)
        return
    before, after = old.spec, new.spec
    both = before.bundles_ref is None and after.eksa_version  # said of the Cluster by itself
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
    """Whether a version that was not there before can be had. `known` are the versions of the EKSAReleases there are;
    `management` is None for a cluster that manages itself; `is_made`: there are objects of Cluster API for it;
    `is_unused`: all of these are still those of the wanted version.

    A version that stays is not judged again: what was accepted goes on whatever became of others.
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
        yield Violation(_VERSION, text, ", ".join(known) or "none", messages.UNKNOWN_RELEASE)
    if old is not None:
        yield from _step(old, new, wanted, is_made=is_made, is_unused=is_unused)
    yield from skew(new.spec, wanted, management)


def skew(
    spec: eksa.ClusterSpec, release: semver.Version | None, management: eksa.Cluster | None
) -> Iterator[Violation]:
    """Whether a cluster of a release may be managed by this management cluster, whoever of them was there first.

    `release` is that of its Bundles when it names no eksaVersion; None when that is not known.
    """
    manager = parsed(management.spec.eksa_version) if management is not None else None
    if management is not None and manager is not None and release is not None:
        field = _VERSION if spec.bundles_ref is None else _BUNDLES
        text = spec.eksa_version if spec.bundles_ref is None else spec.bundles_ref.name
        yield from _skew(field, text or "", release, management, manager)


def managed(
    old: eksa.Cluster | None,
    new: eksa.Cluster,
    workloads: Iterable[tuple[eksa.Cluster, semver.Version | None]],
    told: Callable[[Iterable[object]], str] = messages.listed,
) -> Iterator[Violation]:
    """Whether a management cluster can have this release, for the sake of those that it manages, each with its own.

    `old` is None where the record is created (again). A change towards clusters that are out of reach is allowed: it
    is the way back to them. `told` says which clusters are in the way.
    """
    text = new.spec.eksa_version
    wanted = parsed(text)
    before = parsed(old.spec.eksa_version) if old is not None else None
    if not text or wanted is None or wanted == before:
        return
    known = [(one, at) for one, at in workloads if at is not None]
    late = [(one, at) for one, at in known if distance(at, wanted) > MAXIMUM_SKEW] if _rises(before, wanted) else []
    early = [(one, at) for one, at in known if at > wanted] if _rises(wanted, before) else []
    if late:
        yield Violation(_VERSION, text, "", messages.left_behind(told(_at(late)), MAXIMUM_SKEW))
    if early:
        yield Violation(_VERSION, text, "", messages.overtaken(told(_at(early))))


def _rises(low: semver.Version | None, high: semver.Version | None) -> bool:
    return low is None or high is None or low < high


def warnings(new: eksa.Cluster, management: eksa.Cluster | None) -> Iterator[str]:
    """What is allowed and will not be for ever."""
    wanted = parsed(new.spec.eksa_version)
    manager = parsed(management.spec.eksa_version) if management is not None else None
    if management is None or wanted is None or manager is None:
        return
    steps = distance(wanted, manager)
    if 0 < steps <= MAXIMUM_SKEW:
        yield messages.behind(f"v{wanted}", steps, _of(management))


def parsed(text: str | None) -> semver.Version | None:
    """An eksaVersion as a semantic version; None when it is not one."""
    if not text or not text.startswith("v") or not semver.Version.is_valid(text[1:]):
        return None
    return semver.Version.parse(text[1:])


def distance(low: semver.Version, high: semver.Version) -> int:
    """How many minor versions `high` is after `low`; another major version is very far away."""
    return (high.major - low.major) * 1000 + high.minor - low.minor


def _step(
    old: eksa.Cluster, new: eksa.Cluster, wanted: semver.Version, *, is_made: bool, is_unused: bool
) -> Iterator[Violation]:
    """EKS Anywhere's rule, with its ways out: the annotation, and back from a release that can't be, or was not, used.

    A step begins where the one before it ended: what is half-way between two releases goes to no third one.
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
        yield Violation(_VERSION, f"v{wanted}", allowed, messages.one_minor_at_a_time(following))
    elif steps < 0 and not is_unused and old.status.failure_reason != names.EKSA_VERSION_INVALID:
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
    return [f"{one.metadata.namespace}/{one.metadata.name} (v{at})" for one, at in clusters]
