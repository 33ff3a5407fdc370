"""Objects that hooks leave alone: NodeUpgrades of others, and an owner that is another one by then."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.upgrades import UPDATE_IN_PROGRESS
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusterapi.infrastructures.infrastructure import Infrastructures
from espalier.runtime.controllers.outcome import Done
from espalier.runtime.controllers.writer import Precondition
from espalier.upgrades.hooks.controller import NodeUpgradeCleanup
from espalier.upgrades.hooks.handling import Hooks
from espalier.upgrades.hooks.queries import Owner, Queries, Unanswerable
from espalier.upgrades.hooks.registration import Extension, extension_config
from tests.support.objects.observed_upgrades import NEW, machine, made

OF_MACHINE: Tree = {"apiVersion": "v1", "kind": "Machine", "name": "a", "uid": "1", "controller": True}
OF_GROUP: Tree = {**OF_MACHINE, "kind": "ControlPlaneUpgrade"}


@pytest.mark.parametrize(("owners", "deleted"), [([OF_MACHINE], ["n"]), ([OF_GROUP], []), ([], [])])
def test_completed_node_upgrades_of_hooks_go(owners: list[Tree], deleted: list[str]) -> None:
    """Others answer the questions of the upgrade of a group, or of who wrote them."""
    gone: list[str] = []

    async def delete(_resource: Any, object_: Any, *_: Any) -> None:
        gone.append(object_.name)

    node_upgrade = made(
        {
            "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
            "kind": "NodeUpgrade",
            "metadata": {"name": "n", "namespace": "eksa-system", "ownerReferences": owners},
            "spec": {"machine": {"name": "a"}, "kubernetesVersion": NEW, "nodeType": "Worker"},
            "status": {"completed": True, "conditions": [{"type": "Ready", "status": "True", "reason": "Upgraded"}]},
        }
    )
    view = SimpleNamespace(capi_objects=SimpleNamespace(machine=lambda _name: None))
    observer = SimpleNamespace(
        upgrade=lambda *_: node_upgrade, unless_of_others=lambda object_: object_, view=lambda _cluster: view
    )
    tools: Any = SimpleNamespace(observer=observer, writer=SimpleNamespace(delete=delete))
    assert asyncio.run(NodeUpgradeCleanup(tools).reconcile(Key("eksa-system", "n"))) == Done()
    assert gone == deleted


async def test_no_machine_is_upgraded_whose_config_is_gone() -> None:
    """It holds the fields that the machine is to get."""
    view = machine("m", control_plane=True)
    tree = view.object.tree
    tree["metadata"]["annotations"] = {UPDATE_IN_PROGRESS: ""}
    tree["spec"]["bootstrap"] = {"configRef": {"apiGroup": "b", "kind": "KubeadmConfig", "name": "m"}}

    async def get(*_: Any) -> Any:
        return made(tree)

    async def list_(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(items=[])

    client: Any = SimpleNamespace(get=get, list=list_)
    remotes: Any = None
    with pytest.raises(Unanswerable, match="the KubeadmConfig of Machine m does not exist"):
        await Queries(client, remotes).desired_machine("m")


async def test_registered_hooks_are_not_written_again() -> None:
    """An apply that changes nothing is a request still, of every replica at every renewal."""
    config = {"service": {"namespace": "eksa-system", "name": "s", "port": 443}}
    present = made(msgspec.to_builtins(extension_config(config, b"bundle")))
    applied: list[Any] = []

    async def apply(_resource: Any, body: Any, **_: Any) -> Any:
        applied.append(body)
        return present

    client: Any = SimpleNamespace(apply=apply)
    extension = Extension(client, config)
    cache = SimpleNamespace(get=lambda _key: present, wrote=lambda _object: None)
    extension.follow(cast(Any, SimpleNamespace(of=lambda *_, **__: cache)))
    await extension.trust(b"bundle")
    assert applied == []
    await extension.trust(b"another")
    assert len(applied) == 1


def test_refusal_is_written_on_asked_owner_only() -> None:
    """Whatever became of it meanwhile: whoever else writes it does not keep the sentence from its Cluster."""
    asked: list[Any] = []

    async def merge(*how: Any) -> None:
        asked.append(how[-1])

    updates: Any = SimpleNamespace(writer=SimpleNamespace(merge=merge))
    queries: Any = SimpleNamespace()
    owner = Owner(KubeadmControlPlane.resource, made({"metadata": {"name": "garden", "generation": 2}}))
    asyncio.run(
        Hooks(queries, updates, Infrastructures(()))._record_refusal(owner, "certSANs can't be changed in place")
    )
    assert asked == [Precondition.UID]
