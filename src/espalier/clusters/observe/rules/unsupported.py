"""Fields that this release does not support yet.

Rejected if ignoring the field would give a different cluster, else warned about.
"""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.text.violations import Violation
from espalier.clusters.design.provider import Provider, Providers
from espalier.clusters.observe.rules import changes
from espalier.clusters.observe.rules.control_planes import encryption

_REMOVE = "this release does not support the field; remove it"


def violations(spec: eksa.ClusterSpec, providers: Providers) -> Iterator[Violation]:
    """Fields that this release or the provider of the cluster does not support."""
    reference = spec.datacenter_ref
    if reference is not None and reference.kind not in providers:
        message = "this release does not support this provider"
        yield Violation("spec.datacenterRef.kind", reference.kind, ", ".join(providers), message)
    provider = provider_of(spec, providers)
    if spec.etcd_encryption and (provider is None or not provider.encryption_file):
        yield Violation("spec.etcdEncryption", "encryption in etcd", "nothing", _REMOVE)
    else:
        yield from encryption.violations(spec)
    if provider is not None:
        yield from provider.rules.violations(spec)
        if spec.external_etcd_configuration is not None and provider.etcd is None:
            message = "this provider does not support external etcd; remove the field"
            yield Violation("spec.externalEtcdConfiguration", "external etcd", "nothing", message)
    network = spec.cluster_network
    cilium = network.cni_config.cilium if network and network.cni_config else None
    if cilium and cilium.helm_values:
        field = "spec.clusterNetwork.cniConfig.cilium.helmValues"
        yield Violation(field, ", ".join(sorted(cilium.helm_values)), "nothing", _REMOVE)


def kindnetd(old: eksa.ClusterSpec | None, new: eksa.ClusterSpec, providers: Providers) -> Iterator[Violation]:
    """CNI kindnetd where it does not work. Existing clusters keep it: the plugin is immutable."""
    provider = provider_of(new, providers)
    if provider is None or provider.has_kindnetd or changes.cni_plugin(new) != changes.KINDNETD:
        return
    if old is None or changes.cni_plugin(old) != changes.KINDNETD:
        is_named = new.cluster_network is not None and new.cluster_network.cni
        field = "spec.clusterNetwork.cni" if is_named else f"{changes.CNI_FIELD}.kindnetd"
        message = f"kindnetd does not work on machines of this provider; set {changes.CNI_FIELD}.cilium instead"
        yield Violation(field, "kindnetd", "cilium", message)


def warnings(spec: eksa.ClusterSpec, providers: Providers) -> Iterator[str]:
    """Fields that are accepted without effect, or deprecated."""
    if spec.git_ops_ref is not None:
        yield "spec.gitOpsRef: this release does not write to Git; the cluster is created without it"
    if spec.packages is not None and not spec.packages.disable:
        yield "spec.packages: this release does not install curated packages"
    if spec.license_token:
        yield "spec.licenseToken: this release does not check licences"
    if spec.bundles_ref is not None:
        yield "spec.bundlesRef: deprecated; use spec.eksaVersion"
    if spec.cluster_network is not None and spec.cluster_network.cni:
        yield "spec.clusterNetwork.cni: deprecated; use spec.clusterNetwork.cniConfig"
    if provider := provider_of(spec, providers):
        yield from provider.rules.warnings(spec)


def provider_of(spec: eksa.ClusterSpec, providers: Providers) -> Provider | None:
    """The provider of a Cluster; None if this build does not have it."""
    return providers.get(spec.datacenter_ref.kind) if spec.datacenter_ref is not None else None
