"""Releases and settings that change flags and files of machines are applied where these stand."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineSet
from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from tests.support.environments.in_place_environment import (
    IN_PLACE,
    identities,
    journey,
    machines,
    manifest,
    marks,
    reach,
    ready,
    until_so,
)
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment
from tests.support.environments.upgraders import Upgraders
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

TOKENS = "--service-account-extend-token-expiration=false"
TLS = {"name": "tls-min-version", "value": "VersionTLS12"}
POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"


async def settled(env: ManagedEnvironment, before: dict[str, str]) -> None:
    """All is as asked for, on the machines that were there, and nothing is left to roll."""
    await env.until_ready()
    assert await identities(env) == before
    assert await marks(env) == []
    [plane] = (await env.client.list(KubeadmControlPlane.resource, SYSTEM_NAMESPACE)).items
    assert plane.tree["status"]["upToDateReplicas"] == plane.tree["spec"]["replicas"]
    assert len((await env.client.list(MachineSet.resource, SYSTEM_NAMESPACE)).items) == 1
    secrets = (await reach(env).client.list(SECRET, "eksa-system")).items
    assert not [secret.name for secret in secrets if "node-upgrader" in secret.name], (
        "what pods brought goes with their rights"
    )


async def kubeadm_config(env: ManagedEnvironment) -> Any:
    config_map = await reach(env).client.get(CONFIG_MAP, "kubeadm-config", "kube-system")
    return json.loads(config_map.tree["data"]["ClusterConfiguration"])


@pytest.mark.demand("U17", U6="releases that change flags")
@pytest.mark.soak
@pytest.mark.parametrize(("control_planes", "workers"), sampled([(1, 1), (3, 2)], 0))
def test_releases_of_this_build_upgrade_in_sequence(control_planes: int, workers: int) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        planes = [machine.name for machine in await machines(env, control_plane=True)]

        await env.change(eksaVersion="v0.25.1")
        await settled(env, before)
        assert {tuple(map(str, change["kubeletArgs"])) for change in upgraders.changes.values()} == {(str(TLS),)}
        assert len(upgraders.changes) == control_planes + workers

        upgraders.changes.clear()
        upgraders.static_pods.clear()
        await env.change(eksaVersion="v0.26.0")
        await settled(env, before)
        for plane in planes:
            assert TOKENS in upgraders.static_pods[plane]["kube-apiserver"].flags
        told = {tuple(arg["name"] for arg in change["kubeletArgs"]) for change in upgraders.changes.values()}
        assert (told, len(upgraders.changes)) == ({("cgroup-driver", "fail-cgroupv1")}, control_planes + workers)
        assert (await kubeadm_config(env))["apiServer"]["certSANs"], "what nobody asked to change stays"

    journey(story, control_planes=control_planes, workers=workers, eksaVersion="v0.24.2")


@pytest.mark.soak
def test_audit_policy_reaches_every_control_plane_node() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        asked = {"count": 3, "upgradeRolloutStrategy": IN_PLACE, "auditPolicyContent": POLICY}
        await env.change(controlPlaneConfiguration=asked)
        await settled(env, before)

        assert len(upgraders.changes) == 3
        for changes in upgraders.changes.values():
            [file] = changes["files"]
            assert (file["path"], file["permissions"]) == ("/etc/kubernetes/audit-policy.yaml", "0600")
            assert base64.b64decode(file["content"]).decode() == POLICY

    journey(story, control_planes=3, workers=1)


@pytest.mark.soak
def test_kubelet_settings_reach_workers_and_machines() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        planes = {machine.name for machine in await machines(env, control_plane=True)}
        group = {"name": "md-0", "count": 2, "upgradeRolloutStrategy": IN_PLACE}
        await env.change(workerNodeGroupConfigurations=[group | {"kubeletConfiguration": {"maxPods": 50}}])
        await settled(env, before)

        assert not planes & {node for node, _ in upgraders.ran}
        for machine in await machines(env, control_plane=False):
            changes = upgraders.changes[machine.name]
            assert "maxPods" in base64.b64decode(changes["files"][0]["content"]).decode()
            command = upgraders.commands[machine.name, "kubeadm-upgrader"]
            assert command[command.index("--patches") + 1] == "/etc/kubernetes/patches"
            config = await env.client.get(KubeadmConfig.resource, machine.name, SYSTEM_NAMESPACE)
            [owned] = (await env.client.list(MachineSet.resource, SYSTEM_NAMESPACE)).items
            template = owned.tree["spec"]["template"]["spec"]["bootstrap"]["configRef"]["name"]
            assert config.metadata.annotations["cluster.x-k8s.io/cloned-from-name"] == template

        upgraders.changes.clear()
        await env.change(workerNodeGroupConfigurations=[group])
        await settled(env, before)
        assert {tuple(change["removedFiles"]) for change in upgraders.changes.values()} == {
            ("/etc/kubernetes/patches/kubeletconfiguration0+strategic.yaml",)
        }

    journey(story)


@pytest.mark.demand("U25")
def test_etcd_image_and_feature_gate_arrive() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        [plane] = (await env.client.list(KubeadmControlPlane.resource, SYSTEM_NAMESPACE)).items
        spec: Tree = plane.tree["spec"]["kubeadmConfigSpec"]
        configuration = spec["clusterConfiguration"]
        etcd = configuration["etcd"]["local"] | {"imageRepository": "mirror.example/etcd"}
        wanted = configuration | {"etcd": {"local": etcd}, "featureGates": {"NodeLocalCRISocket": True}}
        mark = {
            "controlplane.clusters.x-k8s.io/in-place-upgrade-needed": "true",
            "cluster.x-k8s.io/paused": "in-place-upgrade",
        }
        patch = {
            "metadata": {"annotations": mark},
            "spec": {"kubeadmConfigSpec": spec | {"clusterConfiguration": wanted}},
        }
        await env.client.patch(
            KubeadmControlPlane.resource, plane.name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE
        )
        [machine] = await machines(env, control_plane=True)
        name = f"{machine.name}-node-upgrader"
        await until_so(env, NodeUpgrade.resource, name, lambda node_upgrade: ready(node_upgrade)["status"] == "True")

        assert upgraders.static_pods[machine.name]["etcd"].image == f"mirror.example/etcd/etcd:{etcd['imageTag']}"
        assert (await kubeadm_config(env))["featureGates"]["NodeLocalCRISocket"] is True

    journey(story, workers=1)


@pytest.mark.soak
@pytest.mark.parametrize("is_worker", sampled([False, True], 0), ids=["control-plane", "worker"])
def test_machine_without_kubeadm_config_is_named(is_worker: bool) -> None:
    """The node's missing changes are not known; a machine that is deleted then is replaced, and all goes on."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        machine = (await machines(env, control_plane=not is_worker))[0].name
        await env.client.delete(KubeadmConfig.resource, machine, SYSTEM_NAMESPACE)
        kubelet = {"kubeletConfiguration": {"maxPods": 44}}
        if is_worker:
            groups = [{"name": "md-0", "count": 2, "upgradeRolloutStrategy": IN_PLACE, **kubelet}]
            change: Tree = {"workerNodeGroupConfigurations": groups}
        else:
            plane = {"count": 3, "upgradeRolloutStrategy": IN_PLACE}
            change = {"controlPlaneConfiguration": plane | {"apiServerExtraArgs": {"audit-log-maxage": "9"}}}
        planned = await env.preview(GARDEN, await manifest(env, change))
        await env.change(**change)
        sentence = f"KubeadmConfig {machine} of Machine {machine} does not exist"
        assert sentence in planned.stops
        result = await env.until(
            lambda item: any(sentence in condition.message for condition in item.status.conditions)
        )
        assert not result.status.ready
        assert upgraders.changes == {}
        await env.client.delete(Machine.resource, machine, SYSTEM_NAMESPACE)
        await env.until_ready(seconds=7200)
        assert machine not in {machine.name for machine in await machines(env)}
        assert await marks(env) == []

    journey(story, control_planes=3, workers=2)
