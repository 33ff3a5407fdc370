"""The complete objects of a cluster on vSphere; credentials stand where they are needed, and nowhere else."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.admission.admission import Admission
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.design.secrets.credentials import IN_WORKLOAD_CLUSTERS
from espalier.clusters.report.validity import missing_objects, problem, unresolved_values
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse
from tests.support.histories.golden_stories import compare_with_golden, text_of
from tests.support.objects.observed_clusters import NAMESPACE, NOW, as_object, laptop, observer
from tests.support.objects.rendered_manifests import FORK, holds, objects, redacted
from tests.support.providers.examples import stored
from tests.support.providers.field_sweep import LOCAL, LOCAL_IPV4
from tests.support.providers.vsphere import (
    CREDENTIALS,
    KEY,
    MAKER,
    READER,
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
    "vsphere": manifest,
    "vsphere-everything": everything,
    "vsphere-bottlerocket": with_bottlerocket,
    "vsphere-bottlerocket-everything": everything_with_bottlerocket,
}


@pytest.mark.demand("L14")
@pytest.mark.parametrize("name", STORIES)
def test_a_cluster_on_vsphere_becomes_these_objects(name: str) -> None:
    compare_with_golden(name, text_of(redacted(objects(made(STORIES[name]())))))


def test_secrets_without_need_contain_no_credentials() -> None:
    name = "cloud-provider-vsphere-credentials"
    for secret, names in ((MAKER, ["vineyard-vsphere-credentials"]), (READER, [f"vineyard-{name}", name])):
        encoded = base64.b64encode(secret.encode()).decode()
        trees = objects(made(everything()))
        assert [tree["metadata"]["name"] for tree in trees if holds(tree, secret)] == names
        others = [tree for tree in trees if tree["kind"] != "Secret"]
        assert not [other for other in others if encoded in json.dumps(other)]
        assert not [tree for tree in trees if secret in json.dumps(tree)]


@pytest.mark.demand("L67")
@pytest.mark.parametrize("missing", ["usernameCP", "passwordCP", "same"])
def test_workload_clusters_get_accounts_by_consent(missing: str) -> None:
    data = {name: value for name, value in CREDENTIALS.items() if name != missing}
    if missing == "same":
        data |= {"usernameCP": data["username"], "passwordCP": data["password"]}
    waits = missing_objects(seen(manifest(), credentials(data)).missing)
    assert waits is not None
    assert waits.reason == "CredentialsNotPermitted"
    assert f"set annotation {IN_WORKLOAD_CLUSTERS}: allowed on the Secret" in waits.message
    assert ("found the user that creates machines" in waits.message) is (missing == "same")
    consented = seen(manifest(), credentials(data, **{IN_WORKLOAD_CLUSTERS: "allowed"}))
    assert consented.render_input is not None
    login = next(
        object_ for object_ in rendered(consented.render_input).workload if object_.resource.kind == "Secret"
    ).body["data"]
    assert base64.b64decode(login["vcenter.example.com.password"]).decode() == MAKER


@pytest.mark.parametrize("lacking", ["username", "password"])
def test_the_cluster_waits_for_user_and_password(lacking: str) -> None:
    waits = missing_objects(seen(manifest(), credentials(CREDENTIALS | {lacking: ""})).missing)
    assert waits is not None
    assert "fields username and password of Secret eksa-system/vsphere-credentials" in waits.message


def test_an_unverified_server_needs_its_own_permission() -> None:
    trees = manifest()
    of(trees, "VSphereDatacenterConfig")["insecure"] = True
    waits = missing_objects(seen(trees).missing)
    assert waits is not None
    assert "insecure:vcenter.example.com" in waits.message
    of(trees, "VSphereDatacenterConfig")["thumbprint"] = ":".join(["ab"] * 20)
    assert seen(trees).missing == ()


def of_template(template: KubeObject) -> Tree:
    """The content of a machine template."""
    spec: Tree = msgspec.to_builtins(template)["spec"]["template"]["spec"]
    return spec


@pytest.mark.demand("L57")
def test_patterns_wait_for_values_of_the_vcenter() -> None:
    trees = manifest()
    config = of(trees, "VSphereMachineConfig")
    config["folder"] = "*/Machines"
    del config["template"]
    waits = unresolved_values(seen(trees))
    assert waits is not None
    assert "VSphereMachineConfig vineyard: spec.folder: waiting" in waits.message
    assert "VSphereMachineConfig vineyard: spec.template (of Kubernetes 1.35): waiting" in waits.message
    machines = next(tree for tree in trees if tree["metadata"]["name"] == "vineyard" and tree["spec"] is config)
    paths = {"folder": "/Datacenter/vm/Machines", "templates": {"1.35": "/Datacenter/vm/ubuntu-1-35-4"}}
    machines["status"] = {"observedGeneration": 1, "resolved": paths}
    spec = of_template(made(trees).groups[0].machine_template)
    assert (spec["folder"], spec["template"]) == ("/Datacenter/vm/Machines", "/Datacenter/vm/ubuntu-1-35-4")
    assert "cloneMode" not in spec
    machines["status"]["resolved"] = paths | {"cloneMode": "fullClone"}
    assert of_template(made(trees).groups[0].machine_template)["cloneMode"] == "fullClone"
    config["cloneMode"] = "linkedClone"
    assert of_template(made(trees).groups[0].machine_template)["cloneMode"] == "linkedClone"
    machines["status"]["observedGeneration"] = 0
    assert unresolved_values(seen(trees)) == waits


def test_a_release_before_vsphere_is_refused() -> None:
    trees = manifest(eksaVersion="v0.25.1")
    wait = problem(seen(trees))
    assert wait is not None
    assert wait.reason == "EksaVersionInvalid"
    assert "spec.eksaVersion: the release has no images for clusters with VSphereDatacenterConfig" in wait.message
    assert any("vSphere.manager" in violation for violation in refused(trees))


def test_external_etcd_needs_the_eks_anywhere_build() -> None:
    without = observer(*stored(everything()), credentials()).scope(KEY)
    assert without is not None
    wait = problem(without)
    assert wait is not None
    assert wait.reason == "RequiresEKSAnywhereClusterAPI"


def answer(trees: list[Tree]) -> AdmissionResponse:
    """The answer of admission for a Cluster beside these."""
    known = observer(*stored(trees)[1:], credentials(), laptop(), FORK)
    request = AdmissionRequest("CREATE", "Cluster", NAMESPACE, "vineyard", ADMIN, as_object(trees[0]), None)
    return Admission(known, lambda: NOW).validate(request)


def refused(trees: list[Tree]) -> list[str]:
    review = answer(trees)
    return [] if review.allowed else review.message.split("; spec.")


def test_raised_sizes_and_missing_users_cause_warnings() -> None:
    trees = everything()
    review = [warning for warning in answer(trees).warnings if "MachineConfig" in warning]
    assert [message for message in review if "numCPUs" in message or "GiB" in message or "MiB" in message] == [], (
        "of the example, none is"
    )
    keys = of(trees, "VSphereMachineConfig")["users"][0]["sshAuthorizedKeys"] * 2
    of(trees, "VSphereMachineConfig", "vineyard-cp").update(
        memoryMiB=4096, users=[{"name": "ann", "sshAuthorizedKeys": keys[:1]}] * 3
    )
    small = of(trees, "VSphereMachineConfig")
    small.update(memoryMiB=1, numCPUs=0, diskGiB=1, users=[{"name": "ann", "sshAuthorizedKeys": keys}])
    warnings, is_raised = set(answer(trees).warnings), "in EKS Anywhere; set at least"
    of_plane, of_workers = (f"VSphereMachineConfig {name}: spec." for name in ("vineyard-cp", "vineyard"))
    assert warnings >= {
        f"{of_plane}memoryMiB: found 4096, but machines of external etcd get 8192, as {is_raised} 8192",
        f"{of_workers}memoryMiB: found 1, but machines get 2048, as {is_raised} 2048",
        f"{of_workers}numCPUs: found 0, but machines get 2, as {is_raised} 2",
        f"{of_workers}diskGiB: found 1, but machines get 20, as {is_raised} 20",
        f"{of_plane}users: found 3, but only the first is created, as in EKS Anywhere; remove the others",
        f"{of_workers}users[0].sshAuthorizedKeys: found 2, but only the first is used, as in EKS Anywhere; "
        "remove the others",
    }
    assert f"{of_plane}memoryMiB: found 4096, but machines get" not in "".join(warnings)
    small["memoryMiB"] = 0
    assert "vineyard: spec.memoryMiB" not in "".join(answer(trees).warnings), "0 means the default"


PLANE, GROUP = "controlPlaneConfiguration", "workerNodeGroupConfigurations"
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no endpoint": ({PLANE: {"endpoint": None}}, {}, "set the address of the API server"),
    "a name": ({PLANE: {"endpoint": {"host": "api.example.com"}}}, {}, "kube-vip assigns it"),
    "a port": ({PLANE: {"endpoint": {"host": "192.0.2.10:6443"}}}, {}, "kube-vip assigns it"),
    **{
        f"local as {host}": ({PLANE: {"endpoint": {"host": host}}}, {}, "machines can't be reached there")
        for host in (*LOCAL, *LOCAL_IPV4, "::ffff:127.0.0.1")
    },
    "no machines": ({PLANE: {"machineGroupRef": None}}, {}, "name the config of the machines"),
    "other machines": (
        {PLANE: {"machineGroupRef": {"kind": "SnowMachineConfig", "name": "a"}}},
        {},
        "not a kind of machine config for this datacenter; found SnowMachineConfig; allowed: VSphereMachineConfig",
    ),
    "etcd without machines": (
        {"externalEtcdConfiguration": {"count": 3}},
        {},
        "spec.externalEtcdConfiguration.machineGroupRef: name the config of the machines",
    ),
    "two domains": ({GROUP: {"failureDomains": ["east", "west"]}}, {}, "a worker node group on vSphere has only one"),
    "an unknown domain": ({GROUP: {"failureDomains": ["west"]}}, {}, "has no such failure domain; found west"),
    "networks of a control plane": ({}, {"vineyard-cp": {"networks": ["Rows"]}}, "only workers can have networks"),
    "several systems": (
        {
            "externalEtcdConfiguration": {
                "count": 1,
                "machineGroupRef": {"kind": "VSphereMachineConfig", "name": "vineyard"},
            }
        },
        {"vineyard": {"osFamily": "redhat"}},
        "with external etcd, all machines of a cluster must have the same operating system",
    ),
}


TOGETHER = ("an unknown domain", "networks of a control plane", "several systems")
"""Refusals that only show together with linked objects."""


@pytest.mark.parametrize("name", REFUSED)
def test_an_impossible_configuration_is_refused(name: str) -> None:
    changes, machines, sentence = REFUSED[name]
    trees = manifest()
    assert refused(trees) == []
    for field, value in changes.items():
        part = trees[0]["spec"].setdefault(field, {})
        (part[0] if isinstance(part, list) else part).update(value)
    for config, more in machines.items():
        of(trees, "VSphereMachineConfig", config).update(more)
    stopped = problem(seen(trees))
    assert stopped is not None
    assert stopped.reason == "ClusterInvalid"
    assert sentence in stopped.message
    violations = refused(trees)
    assert bool(violations) != (name in TOGETHER), "at once, unless linked objects may yet become others"
    assert not violations or any(sentence in f"spec.{message}" for message in violations)
