"""Warnings about a Cluster that is accepted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import msgspec

from espalier.api.eksa.cluster import ClusterSpec
from espalier.api.eksa.host_os import UserConfiguration
from espalier.api.eksa.identity_providers import OIDCConfig
from espalier.api.eksa.release import Bundles
from espalier.clusters import names
from espalier.clusters.drift import Policy, policy
from espalier.clusters.provider import Provider
from espalier.clusters.rules import messages
from espalier.kube.objects import Object
from espalier.releases.contents import is_due, support_text


def annotation_values(annotations: Mapping[str, str], patches: Collection[str]) -> Iterator[str]:
    """Warnings about unknown values of annotations, which have no effect; `patches` are those of this manager."""
    if policy(annotations) is None:
        found = annotations[names.DRIFT_ANNOTATION]
        yield f"metadata.annotations[{names.DRIFT_ANNOTATION}]: found {found}, allowed are {', '.join(Policy)}"
    unknown = names.consents(annotations) - set(patches)
    if unknown:
        there = ", ".join(sorted(patches)) or "none"
        yield (
            f"metadata.annotations[{names.PATCHES_ANNOTATION}]: this manager has no patch "
            f"{', '.join(sorted(unknown))}; it has {there}"
        )


def linked(provider: Provider | None, spec: ClusterSpec, children: Sequence[Object]) -> Iterator[str]:
    """Warnings about values of the existing linked objects that machines do not get."""
    if provider is None:
        return
    with suppress(msgspec.ValidationError):  # the controller says what is wrong with them
        yield from provider.links.warnings(spec, children)
        for child in children:
            if child.kind == OIDCConfig.resource.kind:
                yield from _reserved_prefixes(child)
            else:
                yield from _users(child)


def _users(config: Object) -> Iterator[str]:
    """Users of machines, and SSH keys, that are left out."""
    users = msgspec.convert(config.tree.get("spec", {}).get("users") or [], list[UserConfiguration])
    where = f"{config.kind} {config.name}: spec.users"
    if len(users) > 1:
        yield f"{where}: found {len(users)}, but only the first is created, as in EKS Anywhere; remove the others"
    if users and len(keys := users[0].ssh_authorized_keys) > 1:
        found = f"found {len(keys)}, but only the first is used, as in EKS Anywhere; remove the others"
        yield f"{where}[0].sshAuthorizedKeys: {found}"


def _reserved_prefixes(config: Object) -> Iterator[str]:
    """Prefixes by which a provider can make users and groups of Kubernetes itself."""
    for field in ("usernamePrefix", "groupsPrefix"):
        if str(config.tree.get("spec", {}).get(field, "")).startswith("system:"):
            where = f"{config.kind} {config.name}: spec.{field}"
            yield (
                f"{where}: users and groups of Kubernetes itself begin with system:, so whoever controls the provider "
                "may become an administrator of the cluster; use another prefix"
            )


def support(spec: ClusterSpec, bundles: Bundles | None, now: datetime) -> Iterator[str]:
    """Warnings about Kubernetes versions whose support ends soon or has ended: one each, at its first field.

    Without Bundles the dates are unknown.
    """
    if bundles is None:
        return
    ends = {entry.kube_version: entry.end_of_standard_support for entry in bundles.spec.versions_bundles}
    written = {spec.kubernetes_version: "spec.kubernetesVersion"}
    for index, group in enumerate(spec.worker_node_group_configurations):
        field = f"spec.workerNodeGroupConfigurations[{index}].kubernetesVersion"
        written.setdefault(group.kubernetes_version or spec.kubernetes_version, field)
    for version, field in written.items():
        if is_due(ends.get(version, ""), now):
            yield messages.support_is_due(field, version, support_text(ends[version], now))
