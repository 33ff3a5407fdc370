"""The conditions of an upgrade that its node confirms, once its pod is gone."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from espalier.api.eksa.vocabulary.upgrade_keys import CORDONED_BY_UPGRADE
from espalier.api.meta import Condition
from espalier.upgrades.node.containers import KUBEADM, KUBELET, STEPS, UNCORDON
from espalier.upgrades.node.observe import NodeScope
from espalier.upgrades.observed.views import Pod
from tests.support.objects.observed_upgrades import NEW, OLD, cluster_view, node, scope_of, static_pods


def reported(*types: str, kubelet: str = OLD, pods: list[Pod] | None = None, cordoned: bool = False) -> NodeScope:
    """An upgrade without a pod, of which these steps are reported as done."""
    here = node("a", kubelet=kubelet, annotations={CORDONED_BY_UPGRADE: NEW} if cordoned else {})
    scope = scope_of([here])
    conditions = [Condition(type=type, status="True", reason="Done") for type in types]
    status = msgspec.structs.replace(scope.upgrade.status, conditions=conditions)
    view = cluster_view(nodes=[here], static_pods=pods or [])
    return replace(scope, cluster_view=view, upgrade=msgspec.structs.replace(scope.upgrade, status=status))


@pytest.mark.parametrize(
    ("images", "is_done"),
    [((NEW, NEW, NEW), True), ((NEW, NEW, OLD), False), ((NEW, NEW), False), ((OLD, OLD, OLD), False), ((), False)],
)
def test_static_pods_show_that_kubeadm_has_run(images: tuple[str, ...], is_done: bool) -> None:
    scope = reported(KUBEADM.condition, pods=static_pods(*images))
    assert scope.done == ({KUBEADM.condition} if is_done else set())


def test_kubeadm_runs_again_where_no_version_changes() -> None:
    """The same images and the same kubelet show nothing of a change of files or flags."""
    assert not reported(KUBEADM.condition, kubelet=NEW, pods=static_pods(NEW, NEW, NEW)).done
    done = (KUBEADM.condition, KUBELET.condition)
    assert reported(*done, kubelet=NEW).done == set(done)


def test_cordoned_node_is_uncordoned_whatever_stands() -> None:
    done = {step.condition for step in STEPS}
    assert reported(*done, kubelet=NEW, cordoned=True).done == done - {UNCORDON.condition}
    assert reported(*done, kubelet=NEW).are_all_done
