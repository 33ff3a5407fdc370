"""The complete objects of a cluster on CloudStack; which keys it waits for, and what is refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
import yaml

from espalier.api.meta import Tree
from espalier.clusters.admission.admission import Admission
from espalier.clusters.report.validity import missing_objects, problem
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.servers.admission import AdmissionRequest
from tests.support.histories.golden_stories import compare_with_golden, text_of
from tests.support.objects.observed_clusters import NAMESPACE, NOW, as_object, laptop, observer
from tests.support.objects.rendered_manifests import FORK, objects, redacted
from tests.support.providers.cloudstack import (
    API,
    CREDENTIALS,
    MAKER,
    credentials,
    disk,
    everything,
    made,
    manifest,
    of,
    seen,
)
from tests.support.providers.examples import stored


def waits(trees: list[Tree], *secrets: Tree) -> str:
    wait = missing_objects(seen(trees, *secrets).missing)
    return wait.message if wait is not None else ""


def bodies(trees: list[Tree], kind: str) -> list[Any]:
    return [object_ for object_ in objects(made(trees)) if object_["kind"] == kind]


@pytest.mark.parametrize("name", ["cloudstack", "cloudstack-everything"])
def test_a_cluster_on_cloudstack_becomes_these_objects(name: str) -> None:
    compare_with_golden(name, text_of(redacted(objects(made(manifest() if name == "cloudstack" else everything())))))


@pytest.mark.demand(L67="CloudStack")
def test_no_object_contains_keys() -> None:
    encoded = base64.b64encode(MAKER.encode()).decode()
    text = json.dumps(objects(made(everything())))
    assert encoded not in text
    assert MAKER not in text


def test_objects_reference_secret_of_administrator() -> None:
    (cluster,) = bodies(manifest(), "CloudStackCluster")
    assert cluster["spec"]["failureDomains"][0]["acsEndpoint"] == {"name": "global", "namespace": "eksa-system"}


@pytest.mark.parametrize("field", ["api-key", "secret-key"])
def test_the_cluster_waits_for_both_keys(field: str) -> None:
    message = waits(manifest(), credentials({name: value for name, value in CREDENTIALS.items() if name != field}))
    fields = "fields api-url, api-key and secret-key of Secret eksa-system/global"
    assert f"availability zone az-1: waiting for {fields}" in message
    assert f"add {field} to the Secret" in message
    assert MAKER not in message


def test_keys_for_another_api_are_not_used_nor_quoted() -> None:
    message = waits(manifest(), credentials(CREDENTIALS | {"api-url": "https://secret.example.com/client/api"}))
    assert f"field api-url of Secret eksa-system/global to be the managementApiEndpoint, {API}" in message
    assert "secret.example.com" not in message


@pytest.mark.demand(L30="for CloudStack, one for each availability zone")
def test_each_availability_zone_has_its_keys() -> None:
    trees = manifest()
    zones = of(trees, "CloudStackDatacenterConfig")["availabilityZones"]
    zones.append(zones[0] | {"name": "az-2", "credentialsRef": "North"})
    assert "availability zone az-2: waiting for Secret eksa-system/north" in waits(trees)
    assert waits(trees, credentials(), credentials(name="north")) == ""
    trees = manifest()
    zones = of(trees, "CloudStackDatacenterConfig")["availabilityZones"]
    zones[0]["managementApiEndpoint"] = "https://other.example.com/client/api"
    assert "credentials-servers with other.example.com," in waits(trees)


def test_deprecated_zones_use_the_secret_global() -> None:
    trees = manifest()
    spec = of(trees, "CloudStackDatacenterConfig")
    first = spec.pop("availabilityZones")[0]
    network = {"name": "network-2"}
    spec |= {
        "zones": [first["zone"], {"id": "zone-2", "network": network}],
        "domain": "ROOT",
        "account": "admin",
        "managementApiEndpoint": API,
    }
    (cluster,) = bodies(trees, "CloudStackCluster")
    domains = cluster["spec"]["failureDomains"]
    assert [domain["name"] for domain in domains] == ["default-az-0", "default-az-1"]
    assert domains[1]["zone"] == {"id": "zone-2", "network": network}
    assert {domain["acsEndpoint"]["name"] for domain in domains} == {"global"}
    assert {(domain["domain"], domain["account"]) for domain in domains} == {("ROOT", "admin")}


@pytest.mark.parametrize(
    ("given", "host", "port"),
    [
        ("192.0.2.9", "192.0.2.9", 6443),
        ("192.0.2.9:6444", "192.0.2.9", 6444),
        ("api.example.com", "api.example.com", 6443),
        ("api.example.com:443", "api.example.com", 443),
        ("fd00::9", "fd00::9", 6443),
        ("[fd00::9]:7443", "fd00::9", 7443),
        ("[fd00::9]", "fd00::9", 6443),
    ],
)
def test_endpoint_of_cluster_has_host_and_port(given: str, host: str, port: int) -> None:
    trees = manifest(proxyConfiguration={"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3128"})
    trees[0]["spec"]["controlPlaneConfiguration"]["endpoint"]["host"] = given
    for kind in ("Cluster", "CloudStackCluster"):
        (body,) = bodies(trees, kind)
        assert body["spec"]["controlPlaneEndpoint"] == {"host": host, "port": port}
    (plane,) = bodies(trees, "KubeadmControlPlane")
    config = plane["spec"]["kubeadmConfigSpec"]
    vip = next(file["content"] for file in config["files"] if file["path"].endswith("kube-vip.yaml"))
    assert yaml.safe_load(vip)["spec"]["containers"][0]["env"][-1] == {"name": "address", "value": host}
    proxy = next(file["content"] for file in config["files"] if file["path"].endswith("http-proxy.conf"))
    in_list = f"[{host}]" if ":" in host else host
    assert f"cloudstack.example.com,{in_list}:{port}" in proxy


@pytest.mark.parametrize(
    ("device", "filesystem", "partition", "lazy"),
    [("/dev/vdb", "ext4", "/dev/vdb1", True), ("/dev/nvme1n1", "xfs", "/dev/nvme1n1p1", False)],
)
def test_a_second_disk_has_one_file_system(device: str, filesystem: str, partition: str, lazy: bool) -> None:
    trees = manifest(externalEtcdConfiguration={"count": 1, "machineGroupRef": {"kind": MACHINES, "name": "harbor"}})
    of(trees, MACHINES)["diskOffering"] = disk(device=device, filesystem=filesystem)
    (workers,) = bodies(trees, "KubeadmConfigTemplate")
    config = workers["spec"]["template"]["spec"]
    (filesystem_of_disk,) = config["diskSetup"]["filesystems"]
    assert filesystem_of_disk["device"] == partition
    assert filesystem_of_disk.get("extraOpts", []) == (["-E", "lazy_itable_init=1,lazy_journal_init=1"] if lazy else [])
    assert config["mounts"] == [["LABEL=data_disk", "/data-small"]]
    (etcd,) = bodies(trees, "EtcdadmCluster")
    commands = etcd["spec"]["etcdadmConfigSpec"]["preEtcdadmCommands"]
    assert f"blkid -L data_disk || mkfs.{filesystem} -L data_disk {partition}" in commands


def test_a_disk_without_an_offering_is_not_rendered() -> None:
    trees = manifest()
    nothing = {"mountPath": "", "device": "", "filesystem": "", "label": ""}
    of(trees, MACHINES)["diskOffering"] = nothing
    assert objects(made(trees)) == objects(made(manifest()))


def test_a_release_before_cloudstack_is_refused() -> None:
    trees = manifest(eksaVersion="v0.25.1")
    wait = problem(seen(trees))
    assert wait is not None
    assert wait.reason == "EksaVersionInvalid"
    assert "spec.eksaVersion: the release has no images for clusters with CloudStackDatacenterConfig" in wait.message
    assert any("cloudStack.kubeVip" in violation for violation in refused(trees))


def refused(trees: list[Tree]) -> list[str]:
    """The refusals of admission for a Cluster beside these."""
    known = observer(*stored(trees)[1:], credentials(), laptop(), FORK)
    request = AdmissionRequest("CREATE", "Cluster", NAMESPACE, "harbor", ADMIN, as_object(trees[0]), None)
    answer = Admission(known, lambda: NOW).validate(request)
    return [] if answer.allowed else answer.message.split("; spec.")


PLANE, GROUP = "controlPlaneConfiguration", "workerNodeGroupConfigurations"
MACHINES = "CloudStackMachineConfig"


def at(host: str) -> dict[str, Any]:
    return {PLANE: {"endpoint": {"host": host}}}


OF_CLUSTER: dict[str, tuple[dict[str, Any], str]] = {
    "no endpoint": ({PLANE: {"endpoint": None}}, "set the address of the API server"),
    "no name": (at("a_b"), "neither an IP address nor a DNS name"),
    "a number": (at("2130706433"), "neither an IP address nor a DNS name"),
    "no port": (at("192.0.2.9:a"), "neither a host nor a host with a port"),
    "a port that is too high": (at("192.0.2.9:65536"), "not a valid port"),
    "here": (at("127.0.0.1:6443"), "machines can't be reached there"),
    "here by its name": (at("localhost"), "machines can't be reached there"),
    "here by another": (at("LOCALHOST.localdomain:6443"), "machines can't be reached there"),
    "no machines": ({PLANE: {"machineGroupRef": None}}, "name the config of the machines"),
    "other machines": (
        {PLANE: {"machineGroupRef": {"kind": "VSphereMachineConfig", "name": "a"}}},
        "not a kind of machine config for this datacenter; found VSphereMachineConfig; allowed: CloudStackMachine",
    ),
    "a domain of a group": ({GROUP: {"failureDomains": ["az-1"]}}, "machines are spread across all availability zones"),
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


@pytest.mark.parametrize("name", ["rhel8-kube-v1-34", "rhel8"])
def test_template_of_other_kubernetes_stops_a_cluster(name: str) -> None:
    trees = manifest()
    of(trees, MACHINES)["template"]["name"] = name
    stopped = problem(seen(trees))
    assert stopped is not None
    assert stopped.reason == "ClusterInvalid"
    assert (
        f"{MACHINES} harbor: spec.template.name: machines of spec.workerNodeGroupConfigurations[0] run Kubernetes "
        f"1.35; use a template with that version; found {name}; allowed: a name that contains 1.35" in stopped.message
    )
    assert refused(trees) == []


@pytest.mark.parametrize("template", [{"name": "rhel8-1.35.3"}, {"name": "v135"}, {"id": "f0d2", "name": "other"}])
def test_template_has_the_version_in_its_name_or_an_id(template: Tree) -> None:
    trees = manifest()
    of(trees, MACHINES)["template"] = template
    (machines,) = [body for body in bodies(trees, "CloudStackMachineTemplate") if "md-0" in body["metadata"]["name"]]
    assert machines["spec"]["template"]["spec"]["template"] == template


def test_disks_are_also_in_annotations() -> None:
    annotations = msgspec.to_builtins(made(everything()).groups[0].machine_template)["metadata"]["annotations"]
    suffix = "cloudstack.anywhere.eks.amazonaws.com/v1alpha1"
    assert annotations == {
        f"mountpath.diskoffering.{suffix}": "/data-small",
        f"device.diskoffering.{suffix}": "/dev/vdb",
        f"filesystem.diskoffering.{suffix}": "ext4",
        f"label.diskoffering.{suffix}": "data_disk",
        f"symlinks.{suffix}": "/var/log/kubernetes:/data-small/var/log/kubernetes",
    }
