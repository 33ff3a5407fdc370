"""The complete objects of a cluster on Snow; credentials stand where they are needed, and nowhere else."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest

from espalier.api.meta import Tree
from espalier.clusters.admission.admission import Admission
from espalier.clusters.report.validity import missing_objects, problem
from espalier.kube.objects import Object, to_bytes
from espalier.kube.transports.wire import ADMIN
from espalier.providers.snow.rules import clashes
from espalier.runtime.servers.admission import AdmissionRequest
from tests.support.histories.golden_stories import compare_with_golden, text_of
from tests.support.objects.observed_clusters import NAMESPACE, NOW, as_object, laptop, observer
from tests.support.objects.rendered_manifests import FORK, objects, redacted
from tests.support.providers.examples import stored
from tests.support.providers.snow import (
    CANARY,
    CREDENTIALS,
    DATACENTER,
    DEVICE,
    GLACIER,
    MACHINES,
    OTHER_DEVICE,
    POOL,
    credentials,
    everything,
    everything_with_bottlerocket,
    made,
    manifest,
    of,
    seen,
    with_bottlerocket,
)

STORIES = {
    "snow": manifest,
    "snow-everything": everything,
    "snow-bottlerocket": with_bottlerocket,
    "snow-bottlerocket-everything": everything_with_bottlerocket,
}


@pytest.mark.parametrize("name", STORIES)
def test_a_cluster_on_snow_becomes_these_objects(name: str) -> None:
    compare_with_golden(name, text_of(redacted(objects(made(STORIES[name]())))))


def test_only_one_secret_contains_credentials() -> None:
    trees = objects(made(everything()))
    encoded = base64.b64encode(CREDENTIALS["credentials"].encode()).decode()
    assert [tree["metadata"]["name"] for tree in trees if encoded in json.dumps(tree)] == ["glacier-snow-credentials"]
    assert not [tree for tree in trees if CANARY in json.dumps(tree)]


@pytest.mark.parametrize("field", CREDENTIALS)
@pytest.mark.parametrize("content", [None, ""])
def test_cluster_waits_for_profiles_and_certificates(field: str, content: str | None) -> None:
    data = {name: value for name, value in CREDENTIALS.items() if name != field}
    waits = missing_objects(seen(manifest(), credentials(data | ({} if content is None else {field: content}))).missing)
    assert waits is not None
    assert waits.reason == "CredentialsNotPermitted"
    assert "fields credentials and ca-bundle of Secret eksa-system/snow-credentials" in waits.message
    assert f"add {field} to the Secret" in waits.message
    assert CANARY not in waits.message


def test_each_device_needs_a_permission_of_its_own() -> None:
    trees = manifest()
    of(trees, MACHINES)["devices"].append(OTHER_DEVICE)
    waits = missing_objects(seen(trees).missing)
    assert waits is not None
    assert "SnowMachineConfig glacier: spec.devices: waiting for Secret eksa-system/snow-credentials" in waits.message
    assert f"credentials-servers with {OTHER_DEVICE}," in waits.message
    assert f"{DEVICE}," not in waits.message
    assert seen(trees, credentials(servers=f"{OTHER_DEVICE}, {DEVICE}")).missing == ()


def test_devices_without_permission_are_one_sentence() -> None:
    trees = manifest()
    of(trees, MACHINES)["devices"].append(OTHER_DEVICE)
    nobodys = credentials(servers="192.0.2.250")
    (missing,) = seen(trees, nobodys).missing
    assert missing.field == "SnowMachineConfig glacier-cp: spec.devices, SnowMachineConfig glacier: spec.devices"
    assert f"credentials-servers with {DEVICE}, {OTHER_DEVICE}, and" in missing.what
    without_keys = credentials({}, servers=f"{DEVICE}, {OTHER_DEVICE}")
    (missing,) = seen(trees, without_keys).missing
    assert "fields credentials and ca-bundle of Secret" in missing.what


@pytest.mark.demand(L30="for Snow")
def test_named_secret_is_used_if_it_permits_that() -> None:
    trees, other = manifest(), credentials()
    of(trees, DATACENTER)["identityRef"]["name"] = "of-team-a"
    waits = missing_objects(seen(trees).missing)
    assert waits is not None
    assert "spec.devices: waiting for Secret eksa-system/of-team-a" in waits.message
    other["metadata"]["name"] = "of-team-a"
    assert seen(trees, other).missing == ()
    del of(trees, DATACENTER)["identityRef"]
    assert seen(trees).missing == ()


def test_the_cluster_waits_for_a_missing_pool() -> None:
    trees = [tree for tree in manifest() if tree["kind"] != POOL]
    waits = missing_objects(seen(trees).missing)
    assert waits is not None
    assert "spec.network.directNetworkInterfaces" in waits.message
    assert "SnowIPPool glacier" in waits.message


def test_a_release_before_snow_is_refused() -> None:
    trees = manifest(eksaVersion="v0.25.1")
    wait = problem(seen(trees))
    assert wait is not None
    assert wait.reason == "EksaVersionInvalid"
    assert "spec.eksaVersion: the release has no images for clusters with SnowDatacenterConfig" in wait.message
    assert any("snow.kubeVip" in violation for violation in refused(trees))


def refused(trees: list[Tree]) -> list[str]:
    """The refusals of admission for a Cluster beside these."""
    known = observer(*stored(trees)[1:], credentials(), laptop(), FORK)
    request = AdmissionRequest("CREATE", "Cluster", NAMESPACE, "glacier", ADMIN, as_object(trees[0]), None)
    answer = Admission(known, lambda: NOW).validate(request)
    return [] if answer.allowed else answer.message.split("; spec.")


PLANE, GROUP = "controlPlaneConfiguration", "workerNodeGroupConfigurations"
OF_CLUSTER: dict[str, tuple[dict[str, Any], str]] = {
    "no endpoint": ({PLANE: {"endpoint": None}}, "set the address of the API server"),
    "a name": ({PLANE: {"endpoint": {"host": "api.example.com"}}}, "kube-vip assigns it"),
    "an address of pods": (
        {PLANE: {"endpoint": {"host": "192.168.0.9"}}},
        "spec.clusterNetwork.pods contains this address",
    ),
    "no machines": ({PLANE: {"machineGroupRef": None}}, "name the config of the machines"),
    "other machines": (
        {PLANE: {"machineGroupRef": {"kind": "VSphereMachineConfig", "name": "a"}}},
        "not a kind of machine config for this datacenter; found VSphereMachineConfig; allowed: SnowMachineConfig",
    ),
    "a failure domain": ({GROUP: {"failureDomains": ["east"]}}, "Snow has no failure domains; to use other devices"),
}
RANGE = {"ipStart": "192.0.2.20", "ipEnd": "192.0.2.60", "subnet": "192.0.2.0/24", "gateway": "192.0.2.1"}
OF_LINKED: dict[str, tuple[str, dict[str, Any], str]] = {
    "its own credentials": (
        DATACENTER,
        {"identityRef": {"kind": "Secret", "name": "glacier-snow-credentials"}},
        "this Secret is generated for the cluster; keep the credentials in another one",
    ),
    "Bottlerocket without a disk": (
        MACHINES,
        {"osFamily": "bottlerocket", "containersVolume": {"size": 24}},
        "spec.containersVolume: Bottlerocket needs a separate disk for images and containers; found 24; "
        "allowed: 25 GiB or more",
    ),
    "Bottlerocket, unsaid": (
        MACHINES,
        {"osFamily": "", "containersVolume": None},
        "SnowMachineConfig glacier: spec.containersVolume: Bottlerocket needs a separate disk",
    ),
    "a first address elsewhere": (
        POOL,
        {"pools": [RANGE | {"ipStart": "192.0.1.20"}]},
        "SnowIPPool glacier: spec.pools[0].ipStart: it is not in the subnet; found 192.0.1.20",
    ),
    "a last address elsewhere": (POOL, {"pools": [RANGE | {"ipEnd": "192.0.3.2"}]}, "spec.pools[0].ipEnd: it is not"),
    "a gateway elsewhere": (POOL, {"pools": [RANGE, RANGE | {"gateway": "fd00::1"}]}, "spec.pools[1].gateway: it is"),
    "a range that ends first": (
        POOL,
        {"pools": [RANGE | {"ipEnd": "192.0.2.20"}]},
        "spec.pools[0].ipEnd: the range must end after it starts",
    ),
    "the gateway given out": (
        POOL,
        {"pools": [RANGE | {"gateway": "192.0.2.30"}]},
        "it is in SnowIPPool glacier: spec.pools[0]: a machine would get the address of the gateway",
    ),
    "the API server's address given out": (
        POOL,
        {"pools": [RANGE | {"ipStart": "192.0.2.2"}]},
        "it is in SnowIPPool glacier: spec.pools[0]: a machine would get the address of the API server",
    ),
    "a device's address given out": (
        POOL,
        {"pools": [RANGE | {"ipEnd": "192.0.2.100"}]},
        "SnowMachineConfig glacier: spec.devices[0]: it is in SnowIPPool glacier: spec.pools[0]: a machine",
    ),
    "an address given out twice": (
        POOL,
        {"pools": [RANGE, RANGE | {"ipStart": "192.0.2.60", "ipEnd": "192.0.2.90"}]},
        "SnowIPPool glacier: spec.pools[1]: overlaps with spec.pools[0], so two machines could get the same",
    ),
    "the API server on a device": (
        MACHINES,
        {"devices": ["192.0.2.101", "192.0.2.16"]},
        "spec.controlPlaneConfiguration.endpoint.host: this is the address of a device (SnowMachineConfig",
    ),
}


@pytest.mark.parametrize("name", OF_CLUSTER)
def test_invalid_clusters_are_refused_by_admission(name: str) -> None:
    changes, sentence = OF_CLUSTER[name]
    trees = manifest()
    assert refused(trees) == []
    for field, value in changes.items():
        part = trees[0]["spec"].setdefault(field, {})
        (part[0] if isinstance(part, list) else part).update(value)
    stopped = problem(seen(trees))
    assert stopped is not None
    assert stopped.reason == "ClusterInvalid"
    assert sentence in stopped.message
    assert any(sentence in f"spec.{violation}" for violation in refused(trees))


@pytest.mark.parametrize("name", OF_LINKED)
def test_conflicts_between_linked_objects_stop_cluster(name: str) -> None:
    kind, changes, sentence = OF_LINKED[name]
    trees = manifest()
    of(trees, kind).update(changes)
    stopped = problem(seen(trees))
    assert stopped is not None
    assert stopped.reason == "ClusterInvalid"
    assert sentence in stopped.message
    assert refused(trees) == []


def owner(name: str) -> Tree:
    """A reference to a Cluster that links an object."""
    return {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster", "name": name, "uid": f"of-{name}"}


@pytest.mark.parametrize(("owners", "refuses"), [(("glacier", "moraine"), False), (("moraine", "glacier"), True)])
def test_a_pool_belongs_to_one_cluster(owners: tuple[str, ...], *, refuses: bool) -> None:
    trees = manifest()
    pool = next(tree for tree in trees if tree["kind"] == POOL)
    pool["metadata"]["ownerReferences"] = [owner(name) for name in owners]
    stopped = problem(seen(trees))
    assert (stopped is not None) is refuses
    if stopped is not None:
        assert "SnowIPPool glacier: Cluster moraine uses this pool" in stopped.message


def linked(trees: list[Tree], **of_pool: str) -> list[Object]:
    """The objects that a cluster links, with another range in its pool."""
    trees = copy.deepcopy(trees)
    pool = of(trees, POOL)
    pool["pools"] = [pool["pools"][0] | of_pool]
    return [Object(to_bytes(tree)) for tree in trees if tree["kind"] != "Cluster"]


@pytest.mark.parametrize(
    ("of_pool", "device", "common"),
    [
        ({}, DEVICE, "192.0.2.20 to 192.0.2.60"),
        ({"ipStart": "192.0.2.60", "ipEnd": "192.0.2.99"}, DEVICE, "192.0.2.60 to 192.0.2.60"),
        ({"ipStart": "192.0.2.61", "ipEnd": "192.0.2.99"}, DEVICE, ""),
        ({}, OTHER_DEVICE, "192.0.2.20 to 192.0.2.60"),
        ({}, "203.0.113.5", ""),
        ({"ipStart": "fd00::20", "ipEnd": "fd00::60", "subnet": "fd00::/64"}, DEVICE, ""),
    ],
)
def test_pools_in_one_network_exclude_each_other(of_pool: dict[str, str], device: str, common: str) -> None:
    """A device of the same address, or one in the same network, tells that it is one network."""
    theirs = manifest("team-b")
    for name in (GLACIER, "glacier-cp"):
        of(theirs, MACHINES, name)["devices"] = [device]
    clashing = list(clashes(linked(manifest()), linked(theirs, **of_pool)))
    assert [message.partition("another cluster use ")[2].partition(";")[0] for message in clashing] == (
        [common] if common else []
    )
    assert all("team-b" not in message for message in clashing)
