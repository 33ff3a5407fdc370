"""Cluster API of a story: what it asks the runtime hooks, and what it writes after their answers."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import msgspec

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.capi.runtime import ExtensionConfig
from espalier.api.eksa.upgrades import (
    RUNTIME_EXTENSION,
    UPDATE_IN_PROGRESS,
)
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.clusterapi.changes.machine_change import (
    CLONED_FROM_NAME,
    bootstrap_for_comparison,
    control_plane_bootstrap,
)
from espalier.kube.client import PatchType
from espalier.kube.merge_patch import difference
from espalier.kube.objects import Object
from espalier.providers.docker.cluster_api import DockerMachine, DockerMachineTemplate
from espalier.upgrades.hooks import wire
from tests.support.environments.managed_environment import ManagedEnvironment
from tests.support.histories.hook_requests import compared, patched

PAUSED = "cluster.x-k8s.io/paused"


async def discover(env: ManagedEnvironment) -> None:
    """Report that the hooks were discovered, as Cluster API does."""
    results = {"type": "Discovered", "status": "True", "reason": "Discovered", "message": ""}
    patch = {"status": {"conditions": [results | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    await env.client.patch(
        ExtensionConfig.resource, RUNTIME_EXTENSION, patch=patch, type=PatchType.MERGE, subresource="status"
    )


async def ask(env: ManagedEnvironment, machine: str) -> dict[str, Any]:
    """UpdateMachine, once."""
    stored = await env.client.get(Machine.resource, machine, SYSTEM_NAMESPACE)
    config = stored.decode(Machine).spec.bootstrap.config_ref
    assert config is not None
    bootstrap = await env.client.get(KubeadmConfig.resource, config.name, SYSTEM_NAMESPACE)
    body = msgspec.json.encode({"desired": {"machine": stored.tree, "bootstrapConfig": bootstrap.tree}})
    answer: dict[str, Any] = msgspec.json.decode(await env.webhooks.call(wire.path_of(wire.UPDATE_MACHINE), body))
    return answer


async def mark(env: ManagedEnvironment, object_: Object, resource: Any, patch: Tree) -> None:
    await env.client.patch(resource, object_.name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)


class Parts(NamedTuple):
    """A machine with what belongs to it, as a hook is told of it."""

    machine: Tree
    infrastructure: Tree
    bootstrap: Tree

    def sent(self) -> Tree:
        """As Cluster API sends it: as of a machine that joined, without what it changes by itself."""
        bootstrap = self.bootstrap | {"spec": bootstrap_for_comparison(self.bootstrap["spec"])}
        parts = {"machine": self.machine, "infrastructureMachine": self.infrastructure}
        return copy.deepcopy({**parts, "bootstrapConfig": bootstrap})


async def parts_of(env: ManagedEnvironment, machine: Object) -> Parts:
    spec = machine.decode(Machine).spec
    assert spec.bootstrap.config_ref is not None
    bootstrap = await env.client.get(KubeadmConfig.resource, spec.bootstrap.config_ref.name, SYSTEM_NAMESPACE)
    infrastructure = await env.client.get(DockerMachine.resource, spec.infrastructure_ref.name, SYSTEM_NAMESPACE)
    return Parts(machine.tree, infrastructure.tree, bootstrap.tree)


async def wanted_of(env: ManagedEnvironment, current: Parts) -> Parts:
    """The desired state of a machine, according to its control plane or worker node group."""
    labels = current.machine["metadata"]["labels"]
    version, bootstrap, template = await (
        of_control_plane(env) if "cluster.x-k8s.io/control-plane" in labels else of_group(env)
    )
    docker_machine_template = await env.client.get(DockerMachineTemplate.resource, template, SYSTEM_NAMESPACE)
    image = docker_machine_template.tree["spec"]["template"]["spec"]
    section = next(item for item in ("joinConfiguration", "initConfiguration") if item in current.bootstrap["spec"])
    joined = {**bootstrap["joinConfiguration"]}
    fields = current.bootstrap["spec"][section]
    joined |= {name: fields[name] for name in ("discovery", "caCertPath", "controlPlane") if name in fields}
    spec = {name: value for name, value in bootstrap.items() if name not in ("initConfiguration", "joinConfiguration")}
    cluster = current.bootstrap["spec"].get("clusterConfiguration") or {}
    endpoint = {name: cluster[name] for name in ("controlPlaneEndpoint",) if name in cluster}
    if "clusterConfiguration" in spec:
        spec["clusterConfiguration"] = spec["clusterConfiguration"] | endpoint
    own = {"providerID": current.infrastructure["spec"].get("providerID", "")}
    metadata = current.infrastructure["metadata"]
    cloned = metadata | {"annotations": metadata["annotations"] | {CLONED_FROM_NAME: template}}
    spec_of_infrastructure = image | {name: value for name, value in own.items() if value}
    return Parts(
        current.machine | {"spec": current.machine["spec"] | {"version": version}},
        current.infrastructure | {"metadata": cloned, "spec": spec_of_infrastructure},
        current.bootstrap | {"spec": spec | {section: joined}},
    )


async def accept(env: ManagedEnvironment, machine: Object) -> None:
    """Ask whether a machine may become what is asked for, and write that: of its node nothing is read any more."""
    current = await parts_of(env, machine)
    desired = await wanted_of(env, current)
    if "cluster.x-k8s.io/control-plane" in machine.metadata.labels:
        hook, request = wire.CAN_UPDATE_MACHINE, {"current": current.sent(), "desired": desired.sent()}
    else:
        hook, request = wire.CAN_UPDATE_MACHINE_SET, await of_set(env, machine, current, desired)
    answer = msgspec.json.decode(await env.webhooks.call(wire.path_of(hook), msgspec.json.encode(request)))
    assert answer["status"] == "Success", answer
    left = {name: patched(request["current"], answer)[name] for name in request["current"]}
    assert compared(left) == compared(request["desired"]), "nothing is left for which a machine would be replaced"
    await mark(env, machine, Machine.resource, {"metadata": {"annotations": {UPDATE_IN_PROGRESS: ""}}})
    for resource, tree in (
        (DockerMachine.resource, desired.infrastructure),
        (KubeadmConfig.resource, desired.bootstrap),
        (Machine.resource, desired.machine),
    ):
        system_namespace = await env.client.get(resource, tree["metadata"]["name"], SYSTEM_NAMESPACE)
        patch: Tree = {"spec": difference(system_namespace.tree["spec"], tree["spec"], exact=True)}
        if CLONED_FROM_NAME in tree["metadata"].get("annotations", {}):
            patch["metadata"] = {"annotations": {CLONED_FROM_NAME: tree["metadata"]["annotations"][CLONED_FROM_NAME]}}
        await mark(env, system_namespace, resource, patch)


async def of_set(env: ManagedEnvironment, machine: Object, current: Parts, desired: Parts) -> dict[str, Any]:
    """The question about the MachineSet of a machine."""
    (owner,) = machine.metadata.owner_references
    machine_set = await env.client.get(MachineSet.resource, owner.name, SYSTEM_NAMESPACE)
    group = (await env.client.get(MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE)).tree

    async def objects(template: Tree) -> Tree:
        spec = template["spec"]
        bootstrap = await env.client.get(
            KubeadmConfigTemplate.resource, spec["bootstrap"]["configRef"]["name"], SYSTEM_NAMESPACE
        )
        infrastructure = await env.client.get(
            DockerMachineTemplate.resource, spec["infrastructureRef"]["name"], SYSTEM_NAMESPACE
        )
        set_ = {**machine_set.tree, "spec": {**machine_set.tree["spec"], "template": template}}
        parts = {"machineSet": set_, "infrastructureMachineTemplate": infrastructure.tree}
        return copy.deepcopy({**parts, "bootstrapConfigTemplate": bootstrap.tree})

    before, after = machine_set.tree["spec"]["template"], group["spec"]["template"]
    return {"current": await objects(before), "desired": await objects(after)}


async def stands_aside(env: ManagedEnvironment) -> None:
    """The simulated Cluster API does nothing about machines: the story is Cluster API."""
    for resource in (KubeadmControlPlane.resource, MachineDeployment.resource):
        for owner in (await env.client.list(resource, SYSTEM_NAMESPACE)).items:
            await mark(env, owner, resource, {"metadata": {"annotations": {PAUSED: ""}}})


async def of_control_plane(env: ManagedEnvironment) -> tuple[str, Tree, str]:
    spec = (await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)).tree["spec"]
    bootstrap = control_plane_bootstrap(spec["kubeadmConfigSpec"], spec["version"])
    return spec["version"], bootstrap, spec["machineTemplate"]["spec"]["infrastructureRef"]["name"]


async def of_group(env: ManagedEnvironment) -> tuple[str, Tree, str]:
    group = (await env.client.get(MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE)).tree
    spec = group["spec"]["template"]["spec"]
    name = spec["bootstrap"]["configRef"]["name"]
    kubeadm_config_template = await env.client.get(KubeadmConfigTemplate.resource, name, SYSTEM_NAMESPACE)
    return spec["version"], kubeadm_config_template.tree["spec"]["template"]["spec"], spec["infrastructureRef"]["name"]
