"""Fields that nothing acts on yet.

Refused where ignoring one would give another cluster than asked for, else warned of.
"""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.violations import Violation
from espalier.clusters.provider import Provider, Providers

_REMOVE = "this release can't do it, and the cluster would be another one without; remove the field"


def violations(spec: eksa.ClusterSpec, providers: Providers) -> Iterator[Violation]:
    """Fields that are refused, by this release and by the provider of the cluster."""
    reference = spec.datacenter_ref
    if reference is not None and reference.kind not in providers:
        message = "this release has no such provider yet"
        yield Violation("spec.datacenterRef.kind", reference.kind, ", ".join(providers), message)
    whole = {
        "etcdEncryption": (spec.etcd_encryption, "encryption in etcd"),
    }
    for name, (value, what) in whole.items():
        if value:
            yield Violation(f"spec.{name}", what, "nothing", _REMOVE)
    if provider := provider_of(spec, providers):
        yield from provider.rules.violations(spec)
        if spec.external_etcd_configuration is not None and provider.etcd is None:
            field, message = "spec.externalEtcdConfiguration", "the provider has no machines for etcd; remove the field"
            yield Violation(field, "etcd on machines of its own", "nothing", message)
    network = spec.cluster_network
    cilium = network.cni_config.cilium if network and network.cni_config else None
    if cilium and cilium.helm_values:
        field = "spec.clusterNetwork.cniConfig.cilium.helmValues"
        yield Violation(field, ", ".join(sorted(cilium.helm_values)), "nothing", _REMOVE)


def warnings(spec: eksa.ClusterSpec, providers: Providers) -> Iterator[str]:
    """Fields that are accepted and not acted on, or out of date."""
    if spec.git_ops_ref is not None:
        yield "spec.gitOpsRef: nothing is written to Git by this release; the cluster itself is made as asked"
    if spec.packages is not None and not spec.packages.disable:
        yield "spec.packages: curated packages are not installed by this release"
    if spec.license_token:
        yield "spec.licenseToken: the licence is not looked at by this release"
    if spec.bundles_ref is not None:
        yield "spec.bundlesRef: deprecated; name a release in spec.eksaVersion"
    if spec.cluster_network is not None and spec.cluster_network.cni:
        yield "spec.clusterNetwork.cni: deprecated; use spec.clusterNetwork.cniConfig"
    if provider := provider_of(spec, providers):
        yield from provider.rules.warnings(spec)


def provider_of(spec: eksa.ClusterSpec, providers: Providers) -> Provider | None:
    """The provider that a Cluster names; None for one that this build does not have."""
    return providers.get(spec.datacenter_ref.kind) if spec.datacenter_ref is not None else None
