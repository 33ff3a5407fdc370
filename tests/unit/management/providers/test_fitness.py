"""Components that a management cluster needs, and those that don't fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from espalier.api.capi import etcdadm
from espalier.api.definitions.crd import crd_of
from espalier.api.meta import Tree
from espalier.clusterapi.installed import CORE
from espalier.management.providers.components import BOOTSTRAP, CERT_MANAGER, CONTROL_PLANE, ProviderComponents
from espalier.management.providers.fitness import Needed, problems
from espalier.providers.registry import PROVIDERS

VSPHERE = PROVIDERS["VSphereDatacenterConfig"].infrastructure.cluster
DOCKER = PROVIDERS["DockerDatacenterConfig"].infrastructure.cluster
NEEDED = Needed(VSPHERE, {"infrastructure-vsphere": "v1.16.1-eks-a-1"})
VERSION = "v1.13.5"


def definition(name: str, version: str, **labels: str) -> Tree:
    spec = {"group": "x", "versions": [{"name": "v1alpha9", "served": False}, {"name": version, "served": True}]}
    labels = {f"cluster.x-k8s.io/{contract}": value for contract, value in labels.items()}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "a/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}


def provider(label: str, version: str = VERSION, *trees: Tree) -> ProviderComponents:
    return ProviderComponents(label, version, trees, f"{label}.yaml")


def infrastructure(
    version: str = "v1.16.3", served: str = VSPHERE.version, contract: str = "v1beta1"
) -> ProviderComponents:
    kind = definition(VSPHERE.group_resource, served, **({contract: "v1"} if contract else {}))
    return provider("infrastructure-vsphere", version, kind)


CERTIFICATE: Tree = {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "a"}}
BASE = [provider(label) for label in (CORE, BOOTSTRAP, CONTROL_PLANE)]
ALL = [*BASE, infrastructure()]
ETCD = [provider("bootstrap-etcdadm-controller", "v1.0.0", *(crd_of(kind) for kind in etcdadm.KINDS))]


@pytest.mark.parametrize(
    ("providers", "needed"),
    [
        (ALL, NEEDED),
        (ALL, replace(NEEDED, running={CORE: "v1.13.2-eks-a-1", "infrastructure-vsphere": "v1.16.3"})),
        ([*BASE, infrastructure(contract="v1beta2")], NEEDED),
        ([*ALL, provider("ipam-in-cluster", "v1.0.0")], NEEDED),
        ([*ALL, *ETCD], replace(NEEDED, has_external_etcd=True)),
        ([*BASE, infrastructure(), provider(CERT_MANAGER, "v1.18.2")], NEEDED),
        ([provider(CERT_MANAGER, "v1.21.1"), provider(CORE, VERSION, CERTIFICATE), *ALL[1:]], NEEDED),
    ],
)
def test_components_that_fit_are_accepted(providers: Sequence[ProviderComponents], needed: Needed) -> None:
    assert list(problems(providers, needed)) == []


@pytest.mark.parametrize(
    ("providers", "needed", "told"),
    [
        (ALL[1:], NEEDED, "provider cluster-api is missing"),
        ([*ALL[:1], *ALL[2:]], NEEDED, "provider bootstrap-kubeadm is missing"),
        (BASE, NEEDED, "no infrastructure provider with kind VSphereCluster"),
        ([*ALL, provider("infrastructure-nutanix", "v1.6.1")], NEEDED, "found provider infrastructure-nutanix"),
        ([*ALL, *ETCD], NEEDED, "found provider bootstrap-etcdadm-controller, which the cluster does not need"),
        ([*ALL, provider("addon-helm", "v1.0.0")], NEEDED, "found provider addon-helm"),
        ([*BASE, infrastructure("v1.15.0")], NEEDED, "found version v1.15.0, allowed are versions 1.16"),
        ([*BASE, infrastructure("")], NEEDED, "put it into infrastructure-vsphere/VERSION/"),
        ([*BASE, infrastructure(served="v1alpha4")], NEEDED, f"found v1alpha4 served, allowed is {VSPHERE.version}"),
        ([*BASE, infrastructure(contract="")], NEEDED, "has no label of a contract"),
        (
            ALL,
            replace(NEEDED, running={"infrastructure-vsphere": "v1.16.4"}),
            "found version v1.16.3, allowed is v1.16.4, which runs now, or a newer one",
        ),
        ([*ALL[:1], provider(BOOTSTRAP, "v1.13.4"), *ALL[2:]], NEEDED, "allowed is that of cluster-api: v1.13.5"),
        (
            [provider(label, "v1.2.0") for label in (CORE, BOOTSTRAP, CONTROL_PLANE)] + ALL[3:],
            NEEDED,
            "Cluster API: found v1.2.0, allowed are versions",
        ),
        ([provider(CORE, VERSION, CERTIFICATE), *ALL[1:]], NEEDED, "cert-manager is missing, which issues"),
        ([provider(CERT_MANAGER, "v1.17.9"), *ALL], NEEDED, "found version v1.17.9, allowed are v1.18 and later"),
    ],
)
def test_components_that_do_not_fit_are_refused(
    providers: Sequence[ProviderComponents], needed: Needed, told: str
) -> None:
    (problem,) = problems(providers, needed)
    assert told in problem


@pytest.mark.parametrize(("version", "fits"), [("v1.14.2", True), ("v1.14.1", True), ("v1.13.2-eks-a-1", False)])
def test_docker_provider_goes_with_cluster_api(version: str, *, fits: bool) -> None:
    """It is released with Cluster API, which may be newer than that of the release."""
    newer = [provider(label, "v1.14.2") for label in (CORE, BOOTSTRAP, CONTROL_PLANE)]
    docker = provider("infrastructure-docker", version, definition(DOCKER.group_resource, DOCKER.version, v1beta2="v1"))
    needed = Needed(DOCKER, {"infrastructure-docker": "v1.13.2-eks-a-1"})
    told = f"found version {version}, allowed are versions 1.14 with cluster-api: it has v1.14.2"
    assert [problem.partition(": ")[2] for problem in problems([*newer, docker], needed)] == ([] if fits else [told])


def test_etcd_needs_its_own_providers() -> None:
    """One problem for each kind that is nowhere."""
    results = list(problems(ALL, replace(NEEDED, has_external_etcd=True)))
    assert [problem.partition(",")[0] for problem in results] == [
        f"no provider with kind {kind.resource.kind}" for kind in etcdadm.KINDS
    ]
