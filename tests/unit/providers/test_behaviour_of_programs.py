"""The needs of programs on machines, as far as rendered objects decide about them (sources: decision 0093)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from msgspec import convert

from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.design.render.api_server import authenticator
from espalier.clusters.design.render.nodes import kube_vip
from espalier.providers.tinkerbell.hardware.demand import Owner, demands
from espalier.providers.tinkerbell.kinds import TinkerbellMachineConfig
from tests.support.objects.observed_clusters import observer, rendered_of
from tests.support.objects.rendered_manifests import FORK, objects
from tests.support.providers import tinkerbell
from tests.support.providers.every_provider import KINDS, SAMPLES, registry
from tests.support.providers.examples import stored


def rendered(kind: str, spec: Tree | None = None, *more: Tree) -> list[Tree]:
    """The objects of a cluster with all that can be asked for, with these fields."""
    trees = [*SAMPLES[kind].cluster("team-a", "any"), *more]
    trees[0]["spec"] |= spec or {}
    observed = observer(*stored(trees), registry(["team-a"]), *SAMPLES[kind].credentials("team-a"), FORK)
    scope = observed.scope(Key("team-a", "any"))
    assert scope is not None
    return objects(rendered_of(scope))


def of_kind(trees: list[Tree], kind: str) -> Any:
    return next(tree for tree in trees if tree["kind"] == kind)


@pytest.mark.parametrize("kind", KINDS)
def test_kube_vip_gets_two_capabilities_that_it_uses(kind: str) -> None:
    files = of_kind(rendered(kind), "KubeadmControlPlane")["spec"]["kubeadmConfigSpec"]["files"]
    pods = [yaml.safe_load(file["content"]) for file in files if file["path"] == kube_vip.PATH]
    assert len(pods) == (kind not in ("DockerDatacenterConfig",))
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["capabilities"] == {"add": ["NET_ADMIN", "NET_RAW"]}
        assert "runAsUser" not in json.dumps(pod), "capabilities of the image's file are none: it has to be root"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("user", [10000, 65532])
def test_authenticator_reads_its_keys_as_any_user(kind: str, user: int) -> None:
    config = {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "AWSIamConfig",
        "metadata": {"name": "aws", "namespace": "team-a"},
        "spec": {"awsRegion": "us-west-2", "backendMode": ["EKSConfigMap"]},
    }
    trees = rendered(kind, {"identityProviderRefs": [{"kind": "AWSIamConfig", "name": "aws"}]}, config)
    pod = of_kind([tree for tree in trees if tree["metadata"]["name"] == authenticator.NAME], "DaemonSet")
    pod = pod["spec"]["template"]["spec"]
    groups = pod["securityContext"]["supplementalGroups"]
    mounted = {volume["hostPath"]["path"].rstrip("/") for volume in pod["volumes"] if "hostPath" in volume}
    files = of_kind(trees, "KubeadmControlPlane")["spec"]["kubeadmConfigSpec"]["files"]
    read = [file for file in files if any(file["path"].startswith(f"{path}/") for path in mounted)]
    assert {key_file["path"].rpartition("/")[2] for key_file in read} == {"kubeconfig.yaml", "cert.pem", "key.pem"}
    for key_file in read:
        assert key_file["owner"] == "root:root"
        mode = int(key_file["permissions"], 8)
        assert (user == 0 and mode & 0o400) or (0 in groups and mode & 0o040), key_file["path"]
        assert not mode & 0o007, "nobody else reads a key"


def test_cloud_controller_gets_kinds_in_its_spelling() -> None:
    trees = rendered("NutanixDatacenterConfig")
    text = of_kind([tree for tree in trees if tree["metadata"]["name"] == "nutanix-config"], "ConfigMap")
    central = json.loads(text["data"]["nutanix_config.json"])["prismCentral"]
    assert central["credentialRef"]["kind"] == "Secret"
    assert central["additionalTrustBundle"]["kind"] == "ConfigMap"


def test_bare_metal_nodes_have_half_a_minute_to_go() -> None:
    """An API server may be away for longer than the default of 10 seconds while a control plane shrinks."""
    trees = rendered("TinkerbellDatacenterConfig")
    plane = of_kind(trees, "KubeadmControlPlane")["spec"]["machineTemplate"]["spec"]
    workers = of_kind(trees, "MachineDeployment")["spec"]["template"]["spec"]
    assert plane["deletion"]["nodeDeletionTimeoutSeconds"] == 30
    assert workers["deletion"]["nodeDeletionTimeoutSeconds"] == 30


def test_files_of_bare_metal_are_owned_by_root() -> None:
    trees = rendered("TinkerbellDatacenterConfig")
    text = of_kind(trees, "TinkerbellMachineTemplate")["spec"]["template"]["spec"]["templateOverride"]
    assert set(re.findall(r"^ *MODE: ['\"]?(\d+)", text, re.MULTILINE)) == {"0600"}
    assert set(re.findall(r"^ *DIRMODE: ['\"]?(\d+)", text, re.MULTILINE)) == {"0755"}


@pytest.mark.parametrize("surge", [1, 3])
def test_spare_hardware_is_counted_by_max_surge(surge: int) -> None:
    """Templates and MachineDeployments may lag behind it, or lack it."""
    trees = tinkerbell.manifest()
    (group,) = trees[0]["spec"]["workerNodeGroupConfigurations"]
    rolling = {"maxSurge": surge, "maxUnavailable": 0}
    group["upgradeRolloutStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    cluster = convert(trees[0], Cluster)
    configs = {
        tree["metadata"]["name"]: convert(tree, TinkerbellMachineConfig)
        for tree in trees
        if tree["kind"] == "TinkerbellMachineConfig"
    }
    lagging = Owner(machines=group["count"], kubernetes_version="1.34")
    name = trees[0]["metadata"]["name"]
    owners = {name: Owner(1, cluster.spec.kubernetes_version), f"{name}-{group['name']}": lagging}
    demand_of_group = demands(cluster, configs, owners)[group["machineGroupRef"]["name"]]
    assert demand_of_group.spare == surge
