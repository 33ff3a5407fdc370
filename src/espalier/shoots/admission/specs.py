"""Fields of a Shoot's spec, and orders in its annotations: those that can't be carried out are rejected. Pure.

What is stored already is judged only where it changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import combinations

from espalier.api.gardener import metadata_keys
from espalier.api.gardener.cloud_profile import CloudProfile
from espalier.api.gardener.shoot import Shoot
from espalier.api.versions import parsed
from espalier.api.violations import Violation, shown
from espalier.shoots.admission import messages

NETWORKS = ("pods", "services", "nodes")
_VERSION = "spec.kubernetes.version"
_ORDERS = (metadata_keys.RECONCILE, "retry", "maintain")
_OF_GARDENER = ("rotate-", "force-")
"""Beginnings of further orders that Gardener has: manifests with them are accepted, and nothing is done here."""


def violations(old: Shoot | None, new: Shoot, profile: CloudProfile | None) -> Iterator[Violation]:
    """The problems of the fields that a write sets."""
    is_begun = old is not None and bool(old.status.technical_id or old.status.seed_name)
    yield from _version(old, new, profile, is_begun=is_begun)
    yield from _networks(old, new, is_begun=is_begun)
    before = {one.name: one for one in old.spec.provider.workers} if old is not None else {}
    for place, worker in enumerate(new.spec.provider.workers):
        if worker.minimum > worker.maximum and before.get(worker.name) != worker:
            field = f"spec.provider.workers[{place}].minimum"
            yield Violation(field, str(worker.minimum), f"up to maximum, {worker.maximum}", messages.MINIMUM)
    yield from _orders(old.metadata.annotations if old is not None else {}, new.metadata.annotations)


def _version(old: Shoot | None, new: Shoot, profile: CloudProfile | None, *, is_begun: bool) -> Iterator[Violation]:
    version, before = new.spec.kubernetes.version, old.spec.kubernetes.version if old is not None else ""
    if version == before:
        return
    offered = [one.version for one in profile.spec.kubernetes.versions] if profile is not None else []
    wanted, present = parsed(version), parsed(before)
    if wanted is None:
        yield Violation(_VERSION, version or "nothing", "a version like 1.34.2", messages.NO_VERSION)
    elif offered and version not in offered:
        yield Violation(_VERSION, version, ", ".join(offered), messages.NOT_OFFERED)
    elif is_begun and present is not None and wanted < present:
        yield Violation(_VERSION, version, f"{before} or later", messages.DOWNGRADE)


def _networks(old: Shoot | None, new: Shoot, *, is_begun: bool) -> Iterator[Violation]:
    present, wanted = (_texts(one) if one is not None else dict.fromkeys(NETWORKS, "") for one in (old, new))
    if present == wanted:
        return
    found: dict[str, IPv4Network | IPv6Network] = {}
    for name, text in wanted.items():
        field, before = f"spec.networking.{name}", present[name]
        network = network_of(text)
        if text != before and is_begun and (before or name != "nodes"):
            yield Violation(field, text or "nothing", before or "nothing", messages.NETWORK_STAYS)
        elif text and network is None and text != before:
            yield Violation(field, text, "a range like 10.0.0.0/16", messages.NO_RANGE)
        elif network is not None:
            found[name] = network
    for one, other in combinations(found, 2):
        if found[one].version == found[other].version and found[one].overlaps(found[other]):
            said = f"{wanted[one]}, and {other} {wanted[other]}"
            yield Violation(f"spec.networking.{one}", said, "", messages.NETWORKS_OVERLAP)


def network_of(text: str) -> IPv4Network | IPv6Network | None:
    """An address range; None if it is none."""
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _texts(shoot: Shoot) -> dict[str, str]:
    networking = shoot.spec.networking
    return {name: getattr(networking, name) if networking is not None else "" for name in NETWORKS}


def _orders(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Violation]:
    for key in (metadata_keys.OPERATION, metadata_keys.OLDER_OPERATION):
        order = after.get(key)
        if order and order != before.get(key) and order not in _ORDERS and not order.startswith(_OF_GARDENER):
            allowed = f"{', '.join(_ORDERS)}, or one of Gardener's that begin with {' or '.join(_OF_GARDENER)}"
            yield Violation(f"metadata.annotations[{key}]", shown(order), allowed, messages.NO_ORDER)
    forced, key = after.get(metadata_keys.FORCE_RESTORE), metadata_keys.FORCE_RESTORE
    if forced not in (None, before.get(key), "true"):
        yield Violation(f"metadata.annotations[{key}]", shown(forced), "true", messages.NO_FORCE)
