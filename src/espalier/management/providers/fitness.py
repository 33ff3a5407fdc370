"""The components that a management cluster needs: which are missing, too many, or of versions that don't fit. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from espalier.api.capi import etcdadm
from espalier.api.resource import Resource
from espalier.api.version_matrix import OLDEST_CERT_MANAGER, RELEASED_WITH_CLUSTER_API, minor_of, numbers
from espalier.clusterapi import installed
from espalier.clusterapi.installed import CORE
from espalier.management.providers.components import (
    BOOTSTRAP,
    CERT_MANAGER,
    CONTROL_PLANE,
    INFRASTRUCTURE,
    ProviderComponents,
)

_CLUSTER_API = (CORE, BOOTSTRAP, CONTROL_PLANE)
_ADDRESSES = "ipam-"
"""The start of the labels of providers that give addresses, which an infrastructure provider may use."""


@dataclass(frozen=True)
class Needed:
    """The needs of a management cluster."""

    infrastructure: Resource
    """The kind of its infrastructure cluster."""
    wanted: Mapping[str, str] = field(default_factory=dict)
    """The versions of its release by the label of the provider, as Bundles name them."""
    running: Mapping[str, str] = field(default_factory=dict)
    """Those that run where the cluster comes from, as far as they can be told."""
    has_external_etcd: bool = False


def problems(providers: Sequence[ProviderComponents], needed: Needed) -> Iterator[str]:
    """The reasons why these components can't make a management cluster."""
    by_label = {provider.label: provider for provider in providers}
    for label in _CLUSTER_API:
        if label not in by_label:
            yield f"provider {label} is missing: add its components"
    infrastructure = [provider for provider in providers if provider.label.startswith(INFRASTRUCTURE)]
    right = [provider for provider in infrastructure if provider.definition(needed.infrastructure) is not None]
    kind = needed.infrastructure.kind
    if not right:
        yield f"no infrastructure provider with kind {kind}, which the cluster needs: add its components"
    etcd = [kind_.resource for kind_ in etcdadm.KINDS] if needed.has_external_etcd else []
    for resource in etcd:
        if not any(provider.definition(resource) for provider in providers):
            yield f"no provider with kind {resource.kind}, which etcd outside of the control plane needs: add it"
    core = by_label.get(CORE)
    for provider in providers:
        yield from _of_provider(provider, right, etcd, needed)
        if provider in right and numbers(provider.version):
            yield from _infrastructure_version(provider, core, needed.wanted.get(provider.label, ""))
    yield from _certificates(providers, by_label.get(CERT_MANAGER))
    if core is None:
        return
    own = [by_label[label] for label in _CLUSTER_API if label in by_label]
    for other in own:
        if numbers(other.version)[:3] != numbers(core.version)[:3]:
            present, allowed = _shown(other.version), _shown(core.version)
            yield f"{other.file}: found version {present}, allowed is that of {CORE}: {allowed}"
    definitions = [definition for provider in own for definition in provider.definitions]
    for problem in installed.problems(core.version, definitions):
        yield f"{core.file}: {problem}"


def _of_provider(
    provider: ProviderComponents, right: Sequence[ProviderComponents], etcd: Sequence[Resource], needed: Needed
) -> Iterator[str]:
    label, file, kind = provider.label, provider.file, needed.infrastructure.kind
    is_infrastructure = label.startswith(INFRASTRUCTURE)
    is_of_etcd = any(provider.definition(resource) for resource in etcd)
    is_known = label in (*_CLUSTER_API, CERT_MANAGER) or label.startswith(_ADDRESSES) or is_of_etcd
    if not is_known and provider not in right:
        yield f"{file}: found provider {label}, which the cluster does not need: remove it from the folder"
        return
    running = needed.running.get(label, "")
    if not numbers(provider.version):
        yield f"{file}: its version can't be told: put it into {label}/VERSION/, as in a repository of clusterctl"
    elif numbers(provider.version)[:3] < numbers(running)[:3]:
        yield f"{file}: found version {provider.version}, allowed is {running}, which runs now, or a newer one"
    definition = provider.definition(needed.infrastructure)
    if not is_infrastructure or definition is None:
        return
    served = [version["name"] for version in definition["spec"]["versions"] if version.get("served")]
    if needed.infrastructure.version not in served:
        yield (
            f"{file}: kind {kind}: found {', '.join(served) or 'nothing'} served, allowed is "
            f"{needed.infrastructure.version}: give another version of the provider"
        )
    labels = definition["metadata"].get("labels") or {}
    contracts = [contract for contract in (installed.OLD, installed.NEW) if f"cluster.x-k8s.io/{contract}" in labels]
    if not contracts:
        yield (
            f"{file}: kind {kind} has no label of a contract, cluster.x-k8s.io/{installed.NEW} or {installed.OLD}: "
            "Cluster API would not use it"
        )


def _infrastructure_version(
    provider: ProviderComponents, core: ProviderComponents | None, of_release: str
) -> Iterator[str]:
    """The minor version that the release names; of a provider that Cluster API releases, Cluster API's."""
    is_of_core = provider.label in RELEASED_WITH_CLUSTER_API
    wanted = (core.version if core else "") if is_of_core else of_release
    if numbers(wanted) and minor_of(provider.version) != minor_of(wanted):
        source = f"with {CORE}" if is_of_core else "with this release"
        yield (
            f"{provider.file}: found version {provider.version}, allowed are versions {minor_of(wanted)} {source}: "
            f"it has {wanted}"
        )


def _certificates(providers: Sequence[ProviderComponents], cert_manager: ProviderComponents | None) -> Iterator[str]:
    needing = [provider.label for provider in providers if provider.needs_certificates]
    if cert_manager is None and needing:
        yield f"{CERT_MANAGER} is missing, which issues the certificates of {', '.join(needing)}: add its components"
    elif cert_manager is not None and numbers(cert_manager.version)[:2] < numbers(OLDEST_CERT_MANAGER):
        present = _shown(cert_manager.version)
        yield f"{cert_manager.file}: found version {present}, allowed are {OLDEST_CERT_MANAGER} and later"


def _shown(version: str) -> str:
    return version or "unknown"
