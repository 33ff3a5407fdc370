"""Links of a Cluster: its children, each once, and the data that these name."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import msgspec
import pytest

from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusters.design import names
from espalier.clusters.design.provider import Provider
from espalier.clusters.design.secrets import credentials
from espalier.clusters.effects.summary import sentences
from espalier.clusters.observe.references import Linked, LinkedObjects
from espalier.clusters.report.validity import missing_objects
from espalier.kube.client import Client
from espalier.providers.docker.provider import DOCKER
from espalier.runtime.caches.cache import Caches
from tests.support.objects.observed_clusters import GARDEN, NAMESPACE, NoServer, example, fill, observer
from tests.support.providers.orchard import ORCHARD, OrchardDatacenterConfig, OrchardMachineConfig

DATACENTER, MACHINES = OrchardDatacenterConfig.resource, OrchardMachineConfig.resource
SYSTEM = "eksa-system"


def tree(resource: Resource, name: str, **content: object) -> Tree:
    namespace = SYSTEM if resource in (SECRET, CONFIG_MAP) else NAMESPACE
    metadata = {"name": name, "namespace": namespace, "resourceVersion": "1", "uid": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}


def secret(name: str, type_: str = "Opaque", **data: str) -> Tree:
    encoded = {field: base64.b64encode(value.encode()).decode() for field, value in data.items()}
    return tree(SECRET, name, type=type_, data=encoded)


def datacenter() -> Tree:
    return tree(DATACENTER, "garden", spec={"credentialsRef": "credentials", "moreMountsRef": "mounts"})


def linked(*trees: Tree, providers: Mapping[str, Provider] = ORCHARD, **spec: object) -> Linked:
    """The objects linked by a Cluster with these fields, among these."""
    caches = Caches(Client(NoServer()))
    objects = LinkedObjects(caches, providers)
    fill(caches, trees)
    reference = {"kind": DATACENTER.kind, "name": "garden"}
    cluster = {"metadata": {"name": "garden", "namespace": NAMESPACE}, "spec": {"datacenterRef": reference, **spec}}
    return objects.of(msgspec.convert(cluster, eksa.Cluster))


def machines(kind: str, name: str) -> Tree:
    return {"machineGroupRef": {"kind": kind, "name": name}, "count": 1}


def test_child_is_linked_once() -> None:
    of_others = machines("VSphereMachineConfig", "a")
    results = linked(
        datacenter(),
        tree(MACHINES, "a", spec={}),
        tree(MACHINES, "b", spec={}),
        secret("credentials"),
        tree(CONFIG_MAP, "mounts"),
        controlPlaneConfiguration=machines(MACHINES.kind, "a"),
        workerNodeGroupConfigurations=[machines(MACHINES.kind, "a") | {"name": "md-0"}, of_others],
    )
    assert [(kind, child.name) for kind, child in results.children] == [(DATACENTER, "garden"), (MACHINES, "a")]
    assert results.missing == ()


def test_missing_object_is_reported_with_its_field() -> None:
    results = linked(workerNodeGroupConfigurations=[machines(MACHINES.kind, "a")])
    absent = "which does not exist"
    assert [": ".join(item[:2]) for item in results.missing] == [
        f"spec.datacenterRef: OrchardDatacenterConfig garden in namespace team-a, {absent}",
        f"spec.workerNodeGroupConfigurations[0].machineGroupRef: OrchardMachineConfig a in namespace team-a, {absent}",
    ]
    assert [": ".join(item[:2]) for item in linked(datacenter()).missing] == [
        f"OrchardDatacenterConfig garden: spec.credentialsRef: Secret credentials in namespace eksa-system, {absent}",
        f"OrchardDatacenterConfig garden: spec.moreMountsRef: ConfigMap mounts in namespace eksa-system, {absent}",
    ]


def test_data_is_read_by_name_and_is_nowhere_shown() -> None:
    key = secret(names.GATE_KEY.name, key="0123456789")
    results = linked(datacenter(), secret("credentials", password="rose"), secret("others", password="lily"), key)
    assert results.credentials == {"Secret eksa-system/credentials": {"password": b"rose"}}
    assert results.key == b"0123456789"
    assert "rose" not in repr(results)
    assert "0123456789" not in repr(results)
    assert "password" in repr(results)


@pytest.mark.demand(L64="the credentials of providers")
@pytest.mark.parametrize(
    ("servers", "namespaces", "permitted"),
    [
        ("orchard.example.com", NAMESPACE, True),
        ("other.example.com, ORCHARD.example.com", f"team-b, {NAMESPACE}", True),
        ("orchard.example.com", "*", True),
        ("*", NAMESPACE, False),
        ("example.com", NAMESPACE, False),
        ("orchard.example.com", "team", False),
        ("orchard.example.com", "", False),
        ("", NAMESPACE, False),
        (None, None, False),
    ],
)
def test_credentials_go_where_their_secret_permits(
    servers: str | None, namespaces: str | None, permitted: bool
) -> None:
    marked = secret("credentials", password="rose")
    if servers is not None:
        marked["metadata"]["annotations"] = {credentials.SERVERS: servers, credentials.NAMESPACES: namespaces}
    spec = {"credentialsRef": "credentials", "moreMountsRef": "mounts", "server": "orchard.example.com"}
    others = (tree(DATACENTER, "garden", spec=spec), tree(CONFIG_MAP, "mounts"))
    results = linked(*others, marked)
    assert bool(results.credentials) is permitted
    # A tenant does not learn whether the Secret exists.
    without = linked(*others)
    assert results.missing == (() if permitted else without.missing)
    waits = missing_objects(without.missing)
    assert waits is not None
    assert waits.reason == Reason.CREDENTIALS_NOT_PERMITTED
    assert waits.message == (
        "OrchardDatacenterConfig garden: spec.credentialsRef: waiting for Secret eksa-system/credentials, which must "
        "exist and permit this use: annotation anywhere.eks.amazonaws.com/credentials-servers with "
        "orchard.example.com, and anywhere.eks.amazonaws.com/credentials-namespaces with team-a or *"
    )


def test_keys_and_tokens_of_others_are_not_kept() -> None:
    for type_ in ("kubernetes.io/tls", "kubernetes.io/service-account-token"):
        results = linked(datacenter(), secret("credentials", type_, token="rose"))
        assert results.credentials == {"Secret eksa-system/credentials": {}}
    basic = linked(datacenter(), secret("credentials", "kubernetes.io/basic-auth", password="rose"))
    assert basic.credentials == {"Secret eksa-system/credentials": {"password": b"rose"}}


def test_config_maps_are_no_credentials() -> None:
    results = linked(datacenter(), secret("credentials"), tree(CONFIG_MAP, "mounts", data={"paths": "/srv/plums"}))
    assert results.data == {"ConfigMap eksa-system/mounts": {"paths": b"/srv/plums"}}
    assert results.credentials.keys() == {"Secret eksa-system/credentials"}


def test_no_secret_is_read_without_such_a_provider() -> None:
    caches = Caches(Client(NoServer()))
    LinkedObjects(caches, {DOCKER.links.datacenter.kind: DOCKER})
    assert [cache.source.resource.kind for cache in caches.all] == [
        "DockerDatacenterConfig",
        "OIDCConfig",
        "AWSIamConfig",
    ]


def test_dry_run_tells_what_is_missing() -> None:
    cluster, _ = example(datacenterRef={"kind": DATACENTER.kind, "name": "garden"})
    scope = observer(cluster, providers=ORCHARD).scope(GARDEN)
    assert scope is not None
    assert list(sentences(scope)) == [
        "plan: waiting for OrchardDatacenterConfig garden in namespace team-a, which does not exist, unless this "
        "manifest contains it; the effects are known then"
    ]
