"""Somebody edits the status of an upgrade in place while a step runs on a node: what stands there is no evidence."""

from __future__ import annotations

import pytest

from espalier.api.core import POD
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import PatchType
from espalier.upgrades.names import UPGRADER_NAMESPACE, upgrader
from espalier.upgrades.node.containers import COPY, KUBEADM, KUBELET, STEPS, UNCORDON
from tests.support.environments.in_place_environment import NEW, journey, machines, reach
from tests.support.environments.managed_environment import ManagedEnvironment
from tests.support.environments.upgraders import Moment, Upgraders
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded


def true(*types: str) -> list[Tree]:
    time = "2026-01-01T00:00:00Z"
    return [{"type": type, "status": "True", "reason": "Done", "lastTransitionTime": time} for type in types]


ALL_STEPS = tuple(step.condition for step in STEPS)
OF_NODES: dict[str, Tree] = {
    "every step": {"conditions": true("UpgraderPodCreated", *ALL_STEPS)},
    "kubeadm": {"conditions": true("UpgraderPodCreated", KUBEADM.condition)},
    "completed": {"completed": True, "conditions": true("Ready", "Progressing", "Accepted")},
    "completed after every step": {"completed": True, "conditions": true("Ready", "UpgraderPodCreated", *ALL_STEPS)},
    "nothing": {"conditions": None, "completed": None},
}
OF_GROUPS: dict[str, Tree] = {
    "ready": {"ready": True},
    "ready by conditions": {"ready": True, "conditions": true("Ready", "Progressing", "Accepted")},
    "all counted": {"ready": True, "upgraded": 9, "requireUpgrade": 0},
    "nothing": {"conditions": None, "ready": None},
}
PLACES = (COPY, KUBEADM, KUBELET, UNCORDON)
VARIANTS = [
    (kind, what, step.container, is_lost)
    for kind, edits in (("node", OF_NODES), ("group", OF_GROUPS))
    for what in edits
    for step in PLACES
    for is_lost in (False, True)
]
ALWAYS = [
    ("node", "every step", KUBEADM.container, True),
    ("node", "kubeadm", COPY.container, True),
    ("node", "completed", KUBEADM.container, False),
    ("group", "ready by conditions", KUBEADM.container, False),
]


async def edit(env: ManagedEnvironment, resource: Resource, status: Tree) -> None:
    for item in (await env.client.list(resource, SYSTEM_NAMESPACE)).items:
        await env.client.patch(
            resource,
            item.name,
            SYSTEM_NAMESPACE,
            patch={"status": status},
            type=PatchType.MERGE,
            subresource="status",
        )


@pytest.mark.parametrize("role", ["control plane", "worker"])
@pytest.mark.parametrize(("kind", "what", "container", "is_lost"), sampled(VARIANTS, *map(VARIANTS.index, ALWAYS)))
def test_an_edited_status_of_an_upgrade_is_no_evidence(
    kind: str, what: str, container: str, is_lost: bool, role: str
) -> None:
    """All nodes are upgraded, whatever stands in statuses, and whether or not the pod goes just then; without that,
    no step is repeated."""
    is_control_plane = role == "control plane"
    group = ControlPlaneUpgrade.resource if is_control_plane else MachineDeploymentUpgrade.resource
    resource, status = (NodeUpgrade.resource, OF_NODES[what]) if kind == "node" else (group, OF_GROUPS[what])

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = await machines(env, control_plane=True)
        workers = await machines(env, control_plane=False)
        target, edited = (planes if is_control_plane else workers)[0].name, list[str]()

        async def change(_cluster: object, node: str, running: str, moment: Moment) -> None:
            if (node, running, moment, edited) != (target, container, Moment.RUNS, []):
                return
            edited.append(node)
            await edit(env, resource, status)
            if is_lost:
                await reach(env).client.delete(POD, upgrader(node), UPGRADER_NAMESPACE)

        upgraders.happening = change
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        assert edited
        assert set(await env.versions()) == {NEW}
        ran = [(node, step) for node, step in upgraders.ran if node in {item.name for item in (*planes, *workers)}]
        assert {(item.name, KUBEADM.container) for item in (*planes, *workers)} <= set(ran)
        if not is_lost:
            assert len(ran) == len(set(ran))

    journey(story)
