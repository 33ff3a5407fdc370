"""The complete objects of a cluster on Nutanix; credentials stand where they are needed, and nowhere else."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from espalier.api.meta import Tree
from espalier.clusters.admission.admission import Admission
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.design.secrets.credentials import IN_WORKLOAD_CLUSTERS
from espalier.clusters.report.validity import missing_objects, problem
from espalier.kube.transports.wire import ADMIN
from espalier.providers.nutanix.references import read_account, write_account
from espalier.runtime.servers.admission import AdmissionRequest
from tests.support.histories.golden_stories import compare_with_golden, text_of
from tests.support.objects.observed_clusters import NAMESPACE, NOW, as_object, laptop, observer
from tests.support.objects.rendered_manifests import FORK, holds, objects, redacted
from tests.support.providers.examples import stored
from tests.support.providers.nutanix import (
    CREDENTIALS,
    MAKER,
    READER,
    UUID,
    account,
    credentials,
    domain,
    everything,
    made,
    manifest,
    named,
    of,
    reference,
    seen,
)


@pytest.mark.demand(L14="Nutanix")
@pytest.mark.parametrize("name", ["nutanix", "nutanix-everything"])
def test_a_cluster_on_nutanix_becomes_these_objects(name: str) -> None:
    compare_with_golden(name, text_of(redacted(objects(made(manifest() if name == "nutanix" else everything())))))


def test_secrets_without_need_contain_no_credentials() -> None:
    trees = objects(made(everything()))
    accounts = (CREDENTIALS["credentials"], CREDENTIALS["credentialsCP"])
    places = (["capx-quarry"], ["quarry-nutanix-ccm-secret", "nutanix-creds"])
    for content, secret, names in zip(accounts, (MAKER, READER), places, strict=True):
        encoded = base64.b64encode(content.encode()).decode()
        assert [tree["metadata"]["name"] for tree in trees if holds(tree, secret)] == names
        others = [tree for tree in trees if tree["kind"] != "Secret"]
        assert not [other for other in others if encoded in json.dumps(other)]
        assert not [tree for tree in trees if secret in json.dumps(tree)]


def test_written_credentials_are_readable_and_hidden() -> None:
    content = write_account("maker", MAKER)
    assert json.loads(content) == json.loads(account("maker", MAKER))
    login = read_account(content.encode())
    assert login is not None
    assert (login.username, login.password) == ("maker", MAKER)
    assert MAKER not in f"{login!r} {login} {[login]}"


@pytest.mark.demand(L67="Nutanix")
@pytest.mark.parametrize("cp", ["", "{}", "same"])
def test_workload_clusters_get_accounts_by_consent(cp: str) -> None:
    data = CREDENTIALS | {"credentialsCP": account("maker", "x") if cp == "same" else cp}
    waits = missing_objects(seen(manifest(), credentials(data)).missing)
    assert waits is not None
    assert waits.reason == "CredentialsNotPermitted"
    assert f"set annotation {IN_WORKLOAD_CLUSTERS}: allowed on the Secret" in waits.message
    assert ("found the user that creates machines" in waits.message) is (cp == "same")
    consented = seen(manifest(), credentials(data, **{IN_WORKLOAD_CLUSTERS: "allowed"}))
    assert consented.render_input is not None
    login = next(
        object_ for object_ in rendered(consented.render_input).workload if object_.resource.kind == "Secret"
    ).body["data"]
    expected = data["credentialsCP" if cp == "same" else "credentials"]
    assert base64.b64decode(login["credentials"]).decode() == expected


BASIC = account("maker", MAKER)


@pytest.mark.parametrize(
    "content",
    [
        *("", "x", "{}", "[]", "[" * 5000, account("", MAKER), account("maker", "")),
        *(BASIC.replace("basic_auth", "token"), BASIC.replace(f'"{MAKER}"', "1"), BASIC.replace("prismCentral", "p")),
    ],
)
def test_the_cluster_waits_for_an_account(content: str) -> None:
    waits = missing_objects(seen(manifest(), credentials(CREDENTIALS | {"credentials": content})).missing)
    assert waits is not None
    assert "field credentials of Secret eksa-system/nutanix-credentials, with the account that" in waits.message
    assert MAKER not in waits.message


def test_an_unverified_server_needs_its_own_permission() -> None:
    trees = manifest()
    of(trees, "NutanixDatacenterConfig")["insecure"] = True
    waits = missing_objects(seen(trees).missing)
    assert waits is not None
    assert "insecure:prism.example.com:9440" in waits.message


@pytest.mark.parametrize(
    ("endpoint", "server"),
    [("10.0.0.9", "10.0.0.9:9441"), ("fd00::9", "[fd00::9]:9441"), ("[fd00::9]", "[fd00::9]:9441")],
)
def test_other_server_or_port_needs_its_own_permission(endpoint: str, server: str) -> None:
    trees = manifest()
    of(trees, "NutanixDatacenterConfig").update({"endpoint": endpoint, "port": 9441})
    waits = missing_objects(seen(trees).missing)
    assert waits is not None
    assert f"credentials-servers with {server}," in waits.message


@pytest.mark.demand(L30="for Nutanix")
def test_named_secret_is_used_if_it_permits_that() -> None:
    trees, other = manifest(), credentials()
    of(trees, "NutanixDatacenterConfig")["credentialRef"]["name"] = "of-team-a"
    waits = missing_objects(seen(trees).missing)
    assert waits is not None
    assert "spec.credentialRef: waiting for Secret eksa-system/of-team-a" in waits.message
    other["metadata"]["name"] = "of-team-a"
    assert seen(trees, other).missing == ()
    del of(trees, "NutanixDatacenterConfig")["credentialRef"]
    assert seen(trees).missing == ()


def test_a_release_before_nutanix_is_refused() -> None:
    trees = manifest(eksaVersion="v0.25.1")
    wait = problem(seen(trees))
    assert wait is not None
    assert wait.reason == "EksaVersionInvalid"
    assert "spec.eksaVersion: the release has no images for clusters with NutanixDatacenterConfig" in wait.message
    assert any("nutanix.cloudProvider" in violation for violation in refused(trees))


def test_machines_of_a_domain_keep_gpus_and_categories() -> None:
    east, west = made(everything()).groups
    for group, cluster in ((east, "cluster-east"), (west, "cluster-west")):
        spec = msgspec.to_builtins(group.machine_template)["spec"]["template"]["spec"]
        assert spec["cluster"] == {"type": "name", "name": cluster}
        assert spec["gpus"] == [{"type": "deviceID", "deviceID": 8757}]
        assert spec["additionalCategories"] == [{"key": "stone", "value": "granite"}]
    assert [group.deployment.spec.replicas for group in (east, west)] == [2, 1]
    assert [group.name for group in (east, west)] == ["md-0-east", "md-0-west"]


def refused(trees: list[Tree]) -> list[str]:
    """The refusals of admission for a Cluster beside these."""
    known = observer(*stored(trees)[1:], credentials(), laptop(), FORK)
    request = AdmissionRequest("CREATE", "Cluster", NAMESPACE, "quarry", ADMIN, as_object(trees[0]), None)
    answer = Admission(known, lambda: NOW).validate(request)
    return [] if answer.allowed else answer.message.split("; spec.")


PLANE, GROUP = "controlPlaneConfiguration", "workerNodeGroupConfigurations"
OF_CLUSTER: dict[str, tuple[dict[str, Any], str]] = {
    "no endpoint": ({PLANE: {"endpoint": None}}, "set the address of the API server"),
    "a name": ({PLANE: {"endpoint": {"host": "api.example.com"}}}, "kube-vip assigns it"),
    "no machines": ({PLANE: {"machineGroupRef": None}}, "name the config of the machines"),
    "other machines": (
        {PLANE: {"machineGroupRef": {"kind": "VSphereMachineConfig", "name": "a"}}},
        "not a kind of machine config for this datacenter; found VSphereMachineConfig; allowed: NutanixMachineConfig",
    ),
    "a domain of a group": (
        {GROUP: {"failureDomains": ["east"]}},
        "on Nutanix, failure domains list their worker node groups",
    ),
}
DATACENTER, MACHINES = "NutanixDatacenterConfig", "NutanixMachineConfig"
OF_LINKED: dict[str, tuple[str, dict[str, Any], str]] = {
    "its own credentials": (
        DATACENTER,
        {"credentialRef": {"kind": "Secret", "name": "capx-quarry"}},
        "this Secret is generated for the cluster; keep the credentials in another one",
    ),
    "no certificates": (
        DATACENTER,
        {"additionalTrustBundle": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"},
        "spec.additionalTrustBundle: not certificates",
    ),
    "an unknown group": (
        DATACENTER,
        {"failureDomains": [domain("east", "md-9")]},
        "spec.failureDomains[0].workerMachineGroups[0]: Cluster quarry has no such worker node group; found md-9; "
        "allowed: md-0",
    ),
    "a range that ends first": (
        DATACENTER,
        {"ccmExcludeNodeIPs": ["192.0.2.9-192.0.2.1"]},
        "spec.ccmExcludeNodeIPs[0]: 192.0.2.9-192.0.2.1 ends before it starts",
    ),
    "too many addresses": (
        DATACENTER,
        {"ccmExcludeNodeIPs": ["10.0.0.0/8", "fd00::/8"]},
        "each address is listed separately; exclude smaller ranges; found 1329227995784915872903807060297121792 "
        "addresses",
    ),
    "little memory": (MACHINES, {"memorySize": "4095Mi"}, "spec.memorySize: too small to run Kubernetes"),
    "an image of another version": (
        MACHINES,
        {"image": named("ubuntu-1-34")},
        "spec.image: found ubuntu-1-34, whose name lacks Kubernetes 1.35; use an image of that version, like "
        "ubuntu-1.35",
    ),
    "a small disk": (MACHINES, {"systemDiskSize": 42949672959}, "spec.systemDiskSize: too small to run Kubernetes"),
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


def test_missing_name_of_an_image_is_told_once() -> None:
    """By a rule of its kind, so nothing is said of the name's version."""
    trees = manifest()
    of(trees, MACHINES)["image"] = {"type": "name"}
    assert problem(seen(trees)) is None


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


@pytest.mark.parametrize("image", [named("k8s-v1.35.4"), named("ubuntu135"), {"type": "uuid", "uuid": UUID}])
def test_image_has_the_version_in_its_name_or_a_uuid(image: Tree) -> None:
    trees = manifest()
    of(trees, MACHINES)["image"] = image
    assert problem(seen(trees)) is None


def test_only_workers_may_have_gpus() -> None:
    trees = manifest(externalEtcdConfiguration={"count": 1, "machineGroupRef": reference("quarry")})
    of(trees, MACHINES)["gpus"] = [{"type": "name", "name": "Ampere 40"}]
    stopped = problem(seen(trees))
    assert stopped is not None
    assert "spec.externalEtcdConfiguration.machineGroupRef.name: only workers can have GPUs" in stopped.message
    assert "workerNodeGroupConfigurations" not in stopped.message
