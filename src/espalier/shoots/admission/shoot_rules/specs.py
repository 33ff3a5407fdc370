"""Fields of a Shoot's spec, and operations requested in its annotations: invalid ones are rejected. Pure.

Fields that are already stored are reviewed only if they change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import combinations

from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.text.versions import parsed
from espalier.api.text.violations import Violation, shown
from espalier.shoots.admission import messages
from espalier.shoots.admission.shoot_rules import offers

NETWORKS = ("pods", "services", "nodes")
_VERSION = "spec.kubernetes.version"
_FAILURE_TOLERANCE = "spec.controlPlane.highAvailability.failureTolerance.type"
_TOLERATED = ("node", "zone")
_OPERATIONS = (metadata_keys.RECONCILE, "retry", "maintain")
_GARDENER_PREFIXES = ("rotate-", "force-")
"""Prefixes of further operations of Gardener: manifests with them are accepted, and nothing is done here."""


def violations(old: Shoot | None, new: Shoot, profile: CloudProfile | None) -> Iterator[Violation]:
    """The problems of the fields that a write sets."""
    is_begun = old is not None and bool(old.status.technical_id or old.status.seed_name)
    yield from _version(old, new, profile, is_begun=is_begun)
    yield from offers.violations(old, new, profile)
    yield from _networks(old, new, is_begun=is_begun)
    yield from _high_availability(old, new)
    before = {pool.name: pool for pool in old.spec.provider.workers} if old is not None else {}
    for place, worker in enumerate(new.spec.provider.workers):
        if worker.minimum > worker.maximum and before.get(worker.name) != worker:
            field = f"spec.provider.workers[{place}].minimum"
            yield Violation(field, str(worker.minimum), f"up to maximum, {worker.maximum}", messages.MINIMUM)
    yield from _operations(old.metadata.annotations if old is not None else {}, new.metadata.annotations)


def _version(old: Shoot | None, new: Shoot, profile: CloudProfile | None, *, is_begun: bool) -> Iterator[Violation]:
    version, before = new.spec.kubernetes.version, old.spec.kubernetes.version if old is not None else ""
    if version == before:
        return
    offered = [offer.version for offer in profile.spec.kubernetes.versions] if profile is not None else []
    wanted, present = parsed(version), parsed(before)
    if wanted is None:
        yield Violation(_VERSION, version or "nothing", "a version like 1.34.2", messages.NO_VERSION)
    elif offered and version not in offered:
        yield Violation(_VERSION, version, ", ".join(offered), messages.NOT_OFFERED)
    elif is_begun and present is not None and wanted < present:
        yield Violation(_VERSION, version, f"{before} or later", messages.DOWNGRADE)


def _high_availability(old: Shoot | None, new: Shoot) -> Iterator[Violation]:
    """The failure tolerance may be set at any time, and stays then: an etcd of three members can't lose two."""
    wanted, present = failure_tolerance(new), failure_tolerance(old) if old is not None else ""
    if wanted == present:
        return
    if wanted not in ("", *_TOLERATED):
        yield Violation(_FAILURE_TOLERANCE, wanted, " or ".join(_TOLERATED), messages.NO_TOLERANCE)
    elif present:
        yield Violation(_FAILURE_TOLERANCE, wanted or "nothing", present, messages.TOLERANCE_STAYS)


def failure_tolerance(shoot: Shoot) -> str:
    """The failure that the control plane survives; empty if none."""
    control_plane = shoot.spec.control_plane
    if control_plane is None or control_plane.high_availability is None:
        return ""
    return control_plane.high_availability.failure_tolerance.type


def _networks(old: Shoot | None, new: Shoot, *, is_begun: bool) -> Iterator[Violation]:
    present, wanted = (_texts(shoot) if shoot is not None else dict.fromkeys(NETWORKS, "") for shoot in (old, new))
    if present == wanted:
        return
    networks: dict[str, IPv4Network | IPv6Network] = {}
    for name, text in wanted.items():
        field, before = f"spec.networking.{name}", present[name]
        network = network_of(text)
        if text != before and is_begun and (before or name != "nodes"):
            yield Violation(field, text or "nothing", before or "nothing", messages.NETWORK_STAYS)
        elif text and network is None and text != before:
            yield Violation(field, text, "a range like 10.0.0.0/16", messages.NO_RANGE)
        elif network is not None:
            networks[name] = network
            if text != before and not is_canonical(text):
                yield Violation(field, text, str(network), messages.NOT_CANONICAL)
    for first, second in combinations(networks, 2):
        if networks[first].version == networks[second].version and networks[first].overlaps(networks[second]):
            ranges = f"{wanted[first]}, and {second} {wanted[second]}"
            yield Violation(f"spec.networking.{first}", ranges, "", messages.NETWORKS_OVERLAP)


def is_canonical(text: str) -> bool:
    """False for an address range with bits beside those of the network, as 10.0.0.1/16."""
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def network_of(text: str) -> IPv4Network | IPv6Network | None:
    """Parse an address range; None if it is invalid."""
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _texts(shoot: Shoot) -> dict[str, str]:
    networking = shoot.spec.networking
    return {name: getattr(networking, name) if networking is not None else "" for name in NETWORKS}


def _operations(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Violation]:
    for key in (metadata_keys.OPERATION, metadata_keys.OLDER_OPERATION):
        operation = after.get(key)
        if (
            operation
            and operation != before.get(key)
            and operation not in _OPERATIONS
            and not operation.startswith(_GARDENER_PREFIXES)
        ):
            allowed = (
                f"{', '.join(_OPERATIONS)}, or one of Gardener's that begin with {' or '.join(_GARDENER_PREFIXES)}"
            )
            yield Violation(f"metadata.annotations[{key}]", shown(operation), allowed, messages.NO_OPERATION)
    forced, key = after.get(metadata_keys.FORCE_RESTORE), metadata_keys.FORCE_RESTORE
    if forced not in (None, before.get(key), "true"):
        yield Violation(f"metadata.annotations[{key}]", shown(forced), "true", messages.NO_FORCE)
