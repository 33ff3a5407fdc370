"""Warnings about a Cluster that is accepted."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import msgspec

from espalier.api.eksa.cluster import ClusterSpec
from espalier.api.eksa.identity_providers import OIDCConfig
from espalier.api.eksa.parts.host_os import UserConfiguration
from espalier.api.eksa.releases.release import Bundles
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.clusters.design import names
from espalier.clusters.design.drift.drift_policy import Policy, policy
from espalier.clusters.design.provider import Provider
from espalier.clusters.observe.rules import messages
from espalier.kube.objects import Object
from espalier.releases.contents import is_due, support_text


def annotation_values(annotations: Mapping[str, str], patches: Collection[str]) -> Iterator[str]:
    """Warnings about unknown values of annotations, which have no effect; `patches` are those of this manager."""
    if policy(annotations) is None:
        value = annotations[metadata_keys.DRIFT_ANNOTATION]
        yield f"metadata.annotations[{metadata_keys.DRIFT_ANNOTATION}]: found {value}, allowed are {', '.join(Policy)}"
    unknown = names.consents(annotations) - set(patches)
    if unknown:
        there = ", ".join(sorted(patches)) or "none"
        yield (
            f"metadata.annotations[{metadata_keys.PATCHES_ANNOTATION}]: this manager has no patch "
            f"{', '.join(sorted(unknown))}; it has {there}"
        )


def linked(provider: Provider | None, spec: ClusterSpec, children: Sequence[Object]) -> Iterator[str]:
    """Warnings about values of the existing linked objects that machines do not get."""
    if provider is None:
        return
    with_users = {kind.kind for kind in provider.links.with_users}
    with suppress(msgspec.ValidationError):  # the controller says what is wrong with them
        yield from provider.links.warnings(spec, children)
        for child in children:
            yield from _defaults(child, provider.links.defaults.get(child.kind, {}))
            if child.kind in with_users:
                yield from _without_key(child)
            if child.kind == OIDCConfig.resource.kind:
                yield from _reserved_prefixes(child)
            else:
                yield from _users(child)


def _defaults(config: Object, defaults: Mapping[str, str]) -> Iterator[str]:
    """A warning about fields that are not set and that EKS Anywhere's API requires."""
    spec = config.tree.get("spec") or {}
    if used := [f"{name} ({default})" for name, default in defaults.items() if spec.get(name) is None]:
        yield f"{config.kind} {config.name}: spec: not set, so the defaults of EKS Anywhere apply: {', '.join(used)}"


def _without_key(config: Object) -> Iterator[str]:
    """A warning about machines that nobody can log in to. What was found is not quoted: it may be a private key."""
    users = _users_of(config)
    where = f"{config.kind} {config.name}: spec.users"
    if not users:
        yield f"{where}: found nothing, {_NOBODY}, as a user with the line of a .pub file"
    elif not (key := next(iter(users[0].ssh_authorized_keys), "").strip()):
        yield f"{where}[0].sshAuthorizedKeys: found no key, {_NOBODY}, the line of a .pub file"
    elif not _is_public_key(key):
        where = f"{where}[0].sshAuthorizedKeys[0]"
        yield f"{where}: not a complete SSH public key, {_NOBODY}, the whole line of a .pub file"


_NOBODY = (
    "so nobody can log in to the machines; the command of EKS Anywhere would generate a key pair, espalier does not: "
    "set your public key"
)


def _is_public_key(line: str) -> bool:
    """True if the second word of a line is a key of the type that is the first: types, length first, begin a key."""
    type_, _, rest = line.partition(" ")
    try:
        key = base64.b64decode(rest.split()[0], validate=True)
    except (IndexError, ValueError):
        return False
    return key[4 : 4 + int.from_bytes(key[:4])] == type_.encode() and len(key) > 4 + len(type_)


def _users_of(config: Object) -> list[UserConfiguration]:
    return msgspec.convert((config.tree.get("spec") or {}).get("users") or [], list[UserConfiguration])


def _users(config: Object) -> Iterator[str]:
    """Users of machines, and SSH keys, that are left out."""
    users = _users_of(config)
    where = f"{config.kind} {config.name}: spec.users"
    if len(users) > 1:
        yield f"{where}: found {len(users)}, but only the first is created, as in EKS Anywhere; remove the others"
    if users and len(keys := users[0].ssh_authorized_keys) > 1:
        message = f"found {len(keys)}, but only the first is used, as in EKS Anywhere; remove the others"
        yield f"{where}[0].sshAuthorizedKeys: {message}"


def _reserved_prefixes(config: Object) -> Iterator[str]:
    """Prefixes by which a provider can make users and groups of Kubernetes itself."""
    for field in ("usernamePrefix", "groupsPrefix"):
        if str((config.tree.get("spec") or {}).get(field, "")).startswith("system:"):
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
