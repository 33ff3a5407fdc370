"""The steps by which a NodeUpgrade becomes an upgraded node, in order."""

from __future__ import annotations

from espalier.api import conditions as condition_list
from espalier.api.capi.machine import Machine
from espalier.api.conditions import timestamp
from espalier.api.core import POD
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import CORDONED_BY_UPGRADE, UPGRADE_SECONDS
from espalier.api.violations import shown
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL
from espalier.kube.errors import NotFound
from espalier.runtime.outcome import Continue, Done, Outcome, Wait
from espalier.upgrades import images, names, pod, progress, versions
from espalier.upgrades.node_pass import (
    RESOURCE,
    Pass,
    create,
    delete_pod,
    give_back,
    give_rights,
    protect,
    take_lost_rights,
    take_rights,
)
from espalier.upgrades.node_steps import POD_CREATED, NodeStep
from espalier.upgrades.observe import cluster_of

_UNWATCHED = 30.0
"""Seconds until a Machine that is not there is looked for again: only clusters with one are followed."""

_SILENT = 60.0
"""Seconds after which it is told that nothing is heard of a node, or of its whole cluster, while it is being upgraded.

API servers and kubelets that are exchanged are away as well.
"""


async def hold(p: Pass) -> Outcome:
    """What was begun on the node is ended before the NodeUpgrade is gone."""
    await p.tools.writer.hold(RESOURCE, p.scope.object, names.NODE_FINALIZER)
    return Continue()


async def find_cluster(p: Pass) -> Outcome:
    """The cluster is known by a label; who made the NodeUpgrade by hand need not give it."""
    if p.scope.cluster:
        return Continue()
    writer, name = p.tools.writer, p.scope.upgrade.spec.machine.name
    try:
        machine = await writer.client.get(Machine.resource, name, SYSTEM_NAMESPACE)
    except NotFound:
        return Wait("MachineNotFound", f"{p.machine} does not exist", after=_UNWATCHED)
    cluster = cluster_of(machine) or machine.decode(Machine).spec.cluster_name
    await writer.bring(RESOURCE, p.scope.object, {"metadata": {"labels": {CLUSTER_NAME_LABEL: cluster}}})
    return Wait("Reading", f"reading cluster {cluster}")


async def find_machine(p: Pass) -> Outcome:
    """The machine is there, and of the kind that is said."""
    scope = p.scope
    if scope.site is None:
        return Wait("Reading", f"reading cluster {scope.cluster}")
    if scope.machine is None:
        await take_back(p, "MachineNotFound")
        return Wait("MachineNotFound", f"{p.machine} does not exist")
    if scope.machine.machine.metadata.deletion_timestamp is not None:
        await take_back(p, "MachineDeleted")
        return Wait("MachineDeleted", f"{p.machine} is being deleted")
    is_control_plane = CONTROL_PLANE_LABEL in scope.machine.machine.metadata.labels
    wanted = "ControlPlane" if is_control_plane else "Worker"
    if scope.upgrade.spec.node_type != wanted:
        message = f"spec.nodeType: found {scope.upgrade.spec.node_type}, but {p.machine} is a {wanted}"
        return Wait("WrongNodeType", message)
    return Continue()


async def take_back(p: Pass, reason: str) -> None:
    """The rights of the pod go with the Machine; asked for once, when it is told for the first time that it goes."""
    told = condition_list.get(p.scope.upgrade.status.conditions, names.READY)
    if p.scope.workload is not None and (told is None or told.reason != reason):
        await take_lost_rights(p.scope.workload, p.scope.node_name)


async def find_node(p: Pass) -> Outcome:
    """The machine is a node, and its cluster answers."""
    scope = p.scope
    if not scope.node_name:
        return Wait("NodeMissing", f"{p.machine} has no node")
    if scope.site is None or scope.workload is None:
        why = scope.site.waiting_for if scope.site else ""
        return Wait("WorkloadClusterUnreachable", _as_far_as_known(p, why))
    if scope.node is None:
        return Wait("NodeMissing", f"node {scope.node_name} of {p.machine} does not exist")
    return Continue()


async def await_others(p: Pass) -> Outcome:
    """No other NodeUpgrade is at the node, or is just about to leave it."""
    scope = p.scope
    if scope.taken_by:
        return Wait("NodeTaken", f"waiting for NodeUpgrade {scope.taken_by} to be done with node {scope.node_name}")
    return Continue()


async def check(p: Pass) -> Outcome:
    """Before anything is done on a node: it is ready, and the step to the version is one that kubeadm takes."""
    scope = p.scope
    if scope.pod is not None or progress.done(scope.upgrade.status.conditions) or scope.node is None:
        return Continue()
    wanted = scope.upgrade.spec.kubernetes_version
    problem = versions.obstacle(scope.node.status.node_info.kubelet_version, wanted)
    if problem:
        return Wait("VersionRefused", f"spec.kubernetesVersion: {problem}")
    if not scope.node.is_ready:
        return Wait("NodeNotReady", f"waiting for node {scope.node_name} to be ready, before it is touched")
    return Continue()


async def find_image(p: Pass) -> Outcome:
    """There is an upgrader image for the version."""
    scope = p.scope
    is_needed = scope.pod is None and not progress.are_all_done(scope.upgrade.status.conditions)
    if scope.image and is_needed and not images.is_reference(scope.image):
        what = f"entry {scope.upgrade.spec.kubernetes_version} of ConfigMap {SYSTEM_NAMESPACE}/{names.IMAGES}"
        return Wait("UpgraderImageInvalid", f"{what}: found {shown(scope.image)}, allowed: {images.REFERENCES}")
    if scope.image or not is_needed:
        return Continue()
    wanted, known = scope.upgrade.spec.kubernetes_version, ", ".join(scope.images) or "none"
    message = (
        f"ConfigMap {SYSTEM_NAMESPACE}/{names.IMAGES} has no upgrader image for {wanted} (there is: {known}); "
        "install Bundles that bring one, or add the entry"
    )
    return Wait("UpgraderImageMissing", message)


async def protect_machine(p: Pass) -> Outcome:
    """No health check has the machine replaced while its node is upgraded; once it is, it may have been given back."""
    if progress.current(p.scope.conditions) is not None:
        await protect(p)
    return Continue()


async def renew(p: Pass) -> Outcome:
    """A pod that could not begin, or failed, with another image than is known now goes: the image was corrected."""
    scope = p.scope
    found = scope.pod
    if found is None or scope.workload is None or not scope.image or found.images == {scope.image}:
        return Continue()
    is_hopeless = progress.failure(found) is not None or progress.stuck(found) or not found.has_begun
    if not is_hopeless or not scope.may_go or not images.is_reference(scope.image):
        return Continue()
    await delete_pod(scope.workload, scope)
    return Wait("Retrying", f"the upgrader pod is made anew with image {scope.image}")


async def retry(p: Pass) -> Outcome:
    """Somebody asked for another attempt: the failed pod goes, the next one is made."""
    scope = p.scope
    if names.RETRY_ANNOTATION not in scope.object.metadata.annotations:
        return Continue()
    if scope.pod is not None and scope.workload is not None and scope.may_go:
        await delete_pod(scope.workload, scope)
    asked = {"metadata": {"annotations": {names.RETRY_ANNOTATION: None}}}
    await p.tools.writer.bring(RESOURCE, scope.object, asked)
    return Wait("Retrying", "the upgrader pod is made anew")


async def make_pod(p: Pass) -> Outcome:
    """The upgrader pod is on the node, with the steps that are left."""
    scope = p.scope
    done = progress.done(scope.upgrade.status.conditions)
    if scope.pod is not None or scope.workload is None or progress.are_all_done(scope.upgrade.status.conditions):
        return Continue()
    account = await give_rights(scope.workload, scope.node_name)
    wanted = pod.Upgrader(
        node_upgrade=str(scope.object.key),
        node=scope.node_name,
        image=scope.image or "",
        role=scope.role,
        kubernetes_version=scope.upgrade.spec.kubernetes_version,
        account=account,
        etcd_version=scope.upgrade.spec.etcd_version,
        done=done,
        drains=scope.drains,
        ignored=scope.ignored_preflight_errors,
        patches=scope.patches,
    )
    await create(scope.workload, POD, pod.pod(wanted))
    return Wait("PodCreated", f"upgrader pod {names.upgrader(scope.node_name)} was made on node {scope.node_name}")


async def follow_pod(p: Pass) -> Outcome:
    """All steps succeeded."""
    scope = p.scope
    current = progress.current(scope.conditions)
    if current is None:
        return Continue()
    if scope.pod is None:
        return Wait("Waiting", "the upgrader pod is not there")
    how = progress.how_to_go_on(scope.node_name, scope.object.name, scope.pod.metadata.name)
    failed = progress.failure(scope.pod)
    if failed is not None:
        step, why = failed
        if step is None:
            return Wait("PodFailed", f"the upgrader pod on node {scope.node_name} failed: {why}; {how}")
        return Wait(f"{step.doing}Failed", f"step {step.container} failed on node {scope.node_name}: {why}; {how}")
    if stuck := progress.stuck(scope.pod):
        return Wait("PodCanNotBegin", f"the upgrader pod on node {scope.node_name} can't begin: {stuck}; {how}")
    if scope.site and scope.workload and scope.workload.silent_for >= _SILENT:
        return Wait("WorkloadClusterUnreachable", _as_far_as_known(p, scope.site.waiting_for), after=_SILENT)
    since = scope.node.not_ready_since if scope.node else None
    if since is not None and (p.tools.clock.now() - since).total_seconds() >= _SILENT:
        why = f"the node is not ready since {timestamp(since)}"
        return Wait("NodeNotReady", _as_far_as_known(p, why), after=_SILENT)
    step, condition = current
    return Wait(step.doing, f"{_number(p, step)}: {condition.message}", after=_SILENT)


def _as_far_as_known(p: Pass, why: str) -> str:
    """The step that was being done when the node was heard last, and why nothing newer is known."""
    current = progress.current(p.scope.conditions)
    if current is None or not condition_list.is_true(p.scope.conditions, POD_CREATED):
        return why
    step, condition = current
    return f"{_number(p, step)}: {condition.message}, as far as is known: {why}"


def _number(p: Pass, step: NodeStep) -> str:
    return f"step {progress.number(step)} of {progress.COUNT} on node {p.scope.node_name}"


async def await_node(p: Pass) -> Outcome:
    """The node is seen ready again, with the version that was asked for, and taking pods.

    The next node is judged by what is seen of this one: whether pods can move, and whether it may be missing.
    """
    scope, wanted = p.scope, p.scope.upgrade.spec.kubernetes_version
    if scope.node is None:
        return Wait("NodeMissing", f"node {scope.node_name} does not exist")
    found = scope.node.status.node_info.kubelet_version
    if not versions.is_reached(found, wanted):
        return Wait("NodeOutdated", f"waiting for the kubelet of node {scope.node_name} to be {wanted}; it is {found}")
    if not scope.node.is_ready:
        return Wait("NodeNotReady", f"waiting for node {scope.node_name} to be ready again")
    if CORDONED_BY_UPGRADE in scope.node.metadata.annotations:
        return Wait("NodeCordoned", f"waiting to see that node {scope.node_name} was uncordoned")
    return Continue()


async def clear_up(p: Pass) -> Outcome:
    """The rights do not stay, and health checks look after the machine again. The pod shows what was done until the
    status does.

    The Machine says how long it took, for plans of the next one: the NodeUpgrade goes soon.
    """
    if p.scope.workload is not None:
        await take_rights(p.scope.workload, p.scope.node_name)
    took = progress.seconds(p.scope.conditions, p.scope.pod, p.tools.clock.now())
    await give_back(p, **({} if took is None else {UPGRADE_SECONDS: f"{took:.0f}"}))
    return Done()


LIFE = (
    find_cluster,
    hold,
    find_machine,
    find_node,
    await_others,
    check,
    find_image,
    protect_machine,
    renew,
    retry,
    make_pod,
    follow_pod,
    await_node,
    clear_up,
)
"""From a NodeUpgrade to an upgraded node."""


async def let_go(p: Pass) -> Outcome:
    """The pod does not stay. Then nothing is left to be ended on the node, and nothing holds the NodeUpgrade."""
    scope = p.scope
    if names.NODE_FINALIZER not in scope.object.metadata.finalizers:
        return Done()
    if scope.workload is None:
        return Wait("WorkloadClusterUnreachable", scope.site.waiting_for if scope.site else "")
    await delete_pod(scope.workload, scope)
    await give_back(p)
    await p.tools.writer.let_go(RESOURCE, scope.object, names.NODE_FINALIZER)
    return Done()


AFTERWARDS = (let_go,)
"""What is left to be done once the status says that the node is upgraded."""
