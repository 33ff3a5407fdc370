"""The parts of a NodeUpgrade's status that its node and its pods confirm. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.conditions import is_true
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.upgrade_keys import CORDONED_BY_UPGRADE
from espalier.api.meta import Condition
from espalier.clusterapi import kubernetes_versions
from espalier.kube.objects import Object
from espalier.upgrades.node import status
from espalier.upgrades.node.containers import KUBEADM, KUBELET, ONLY_CERTIFICATES, STEPS, UNCORDON, NodeStep
from espalier.upgrades.observed.evidence import contradiction, is_outdated
from espalier.upgrades.observed.views import Node, Pod

_STATIC_PODS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The components whose images have the version of Kubernetes, in the order in which kubeadm upgrades them."""


def steps_of(upgrade: NodeUpgrade) -> Sequence[NodeStep]:
    """The steps of a NodeUpgrade, in order."""
    return ONLY_CERTIFICATES if upgrade.spec.certificates_only else STEPS


def is_completed(upgrade: NodeUpgrade, node: Node | None, pod: Object | None) -> bool:
    """True if its status says that every step succeeded, and neither the node nor its own pod shows otherwise."""
    is_reported = upgrade.is_completed and status.are_all_done(upgrade.status.conditions, steps_of(upgrade))
    return is_reported and not contradiction(upgrade, node, pod)


def credible(
    upgrade: NodeUpgrade, node: Node | None, pod: Object | None, static_pods: Sequence[Pod]
) -> Sequence[Condition]:
    """The conditions that were reported before, without those that somebody may have edited.

    None if they say that the kubelet was upgraded, and the node shows that it was not: any step may be left. Without a
    pod, kubeadm has run if the kubelet was upgraded after it, or the static pods of the node show it; otherwise it runs
    again, which changes nothing that it has done. A node that the upgrade has cordoned shows that itself.
    """
    before, outdated = upgrade.status.conditions, is_outdated(upgrade, node)
    has_kubelet = is_true(before, KUBELET.condition)
    if has_kubelet and outdated:
        return ()
    if node is None or pod is not None:
        return before
    has_kubeadm = has_kubelet or (outdated and _is_rendered(upgrade, node, static_pods))
    is_cordoned = CORDONED_BY_UPGRADE in node.metadata.annotations
    refuted = {*(() if has_kubeadm else (KUBEADM.condition,)), *((UNCORDON.condition,) if is_cordoned else ())}
    return [condition for condition in before if condition.type not in refuted]


def _is_rendered(upgrade: NodeUpgrade, node: Node, static_pods: Sequence[Pod]) -> bool:
    """True if the static pods of a node have images of the version."""
    tags = {
        pod.metadata.labels.get("component", ""): image.partition("@")[0].rpartition(":")[2]
        for pod in static_pods
        if pod.spec.node_name == node.metadata.name
        for image in pod.images
    }
    wanted = upgrade.spec.kubernetes_version
    return all(kubernetes_versions.is_reached(tags.get(name, ""), wanted) for name in _STATIC_PODS)
