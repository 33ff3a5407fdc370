"""The next etcd comes with the next Kubernetes, member by member, on the same data, under a workload that answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from espalier.api.version_matrix import minor_of
from espalier.etcd.results import KeyValue, Status
from tests.support.environments import workload_use as use
from tests.support.environments.etcd_on_nodes import EtcdOnNodes, History, observed
from tests.support.environments.in_place_on_nodes import LONG, identities, nothing_is_left, watched
from tests.support.environments.node_port_client import asked_throughout
from tests.support.environments.node_versions import NEW, NEWER, OLD, OLDER, etcd_version
from tests.support.environments.real_environment import RealEnvironment, real_environment, why_not
from tests.support.providers.node_manifests import CLUSTER, manifest
from tests.support.servers.kubectl import Kubectl
from tests.support.waiting import eventually

WHY_NOT = why_not(OLD, NEW, watchers=256)

pytestmark = [
    pytest.mark.nodes,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
    # The authorities that Cluster API makes have number 0.
    pytest.mark.filterwarnings("ignore:Parsed a serial number which wasn't positive"),
]

BEFORE, AFTER = etcd_version(OLDER), etcd_version(NEWER)
COUNT = 100
"""ConfigMaps that have to be the same afterwards, in etcd too."""


@pytest.mark.parametrize("planes", [1, 3])
async def test_in_place_members_become_newer(tmp_path: Path, planes: int) -> None:
    async with real_environment(tmp_path) as env:
        workload = await used(env, manifest(1, planes, in_place=True), planes)
        etcd = EtcdOnNodes.of(env)
        before, members, data = await identities(env, workload), await etcd.members(), await config_maps(etcd)
        async with undisturbed(env, workload, etcd) as history:
            await upgraded(env)
        assert await identities(env, workload) == before
        assert await etcd.members() == members
        assert all(set(state) == set(members) for state in history.complete(planes))
        one_after_the_other(history, planes)
        await is_upgraded(env, workload, etcd, planes, data)
        await nothing_is_left(env.management, workload)
        await downgrade_is_refused(env)


@pytest.mark.parametrize("planes", [1, 3])
async def test_newer_machines_bring_newer_members(tmp_path: Path, planes: int) -> None:
    async with real_environment(tmp_path) as env:
        workload = await used(env, manifest(1, planes), planes)
        etcd = EtcdOnNodes.of(env)
        before, members, data = await identities(env, workload), await etcd.members(), await config_maps(etcd)
        async with undisturbed(env, workload, etcd) as history:
            await upgraded(env)
        after = await identities(env, workload)
        assert before["machines"].items().isdisjoint(after["machines"].items())
        assert before["nodes"].items().isdisjoint(after["nodes"].items())
        newer = await etcd.members()
        assert newer.keys().isdisjoint(members)
        assert [member.is_learner for member in newer.values()] == [False] * planes
        joined_before_others_left(history, planes)
        await is_upgraded(env, workload, etcd, planes, data)
        await downgrade_is_refused(env)


async def used(env: RealEnvironment, text: str, planes: int) -> Kubectl:
    """A cluster of the earlier version, with data, and with a Service that answers."""
    await env.apply(text)
    await env.ready("garden")
    workload = await env.workload("garden")
    await use.has_nodes(workload, control_planes=planes, workers=1, version=OLD)
    await use.carries_pods(workload)
    await use.serves(workload)
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"kept-{n}"}} for n in range(COUNT)]
    await use.apply(workload, *({**tree, "data": {"rose": str(n) * 1000}} for n, tree in enumerate(maps)))
    return workload


async def config_maps(etcd: EtcdOnNodes) -> list[KeyValue]:
    """The ConfigMaps with their revisions, which all members have alike."""
    items = list((await etcd.items("/registry/configmaps/default/kept-")).values())
    assert all(item == items[0] for item in items)
    assert len(items[0]) == COUNT
    return items[0]


@asynccontextmanager
async def undisturbed(env: RealEnvironment, workload: Kubectl, etcd: EtcdOnNodes) -> AsyncIterator[History]:
    """Every question to the Service is answered in the block, and members have the same data all the time."""
    async with observed(etcd) as history, watched(workload) as seen, asked_throughout(env) as asking:
        yield history
    print(f"{asking.answered} answers of the Service; the API was away for {seen.gap:.1f} s at most")
    print(f"etcd: {len(history.states)} states, hashes equal: {history.compared}")
    assert seen.fewest >= 1, "the budget of the pods holds"
    assert history.different == []


async def upgraded(env: RealEnvironment) -> None:
    """The newer Kubernetes is asked for, and comes."""
    await env.change(kubernetesVersion=NEWER)
    await env.ready("garden", within=LONG)


def one_after_the_other(history: History, planes: int) -> None:
    """The members went from the old version to the new one, each while the others stayed as they were."""
    states = history.complete(planes)
    assert [sorted(state.values()) for state in states] == [
        sorted([AFTER] * upgraded + [BEFORE] * (planes - upgraded)) for upgraded in range(planes + 1)
    ]
    for before, after in pairwise(states):
        assert sum(before[name] != after[name] for name in before) == 1
    if planes > 1:
        assert frozenset((BEFORE, AFTER)) in history.compared
        assert {frozenset((BEFORE,)), frozenset((AFTER,))} <= set(history.compared)


def joined_before_others_left(history: History, planes: int) -> None:
    """No member changed its version; a newer one joined, then an older one left, as often as there are members."""
    versions: dict[str, set[str]] = {}
    for state in history.states:
        for name, version in state.items():
            versions.setdefault(name, set()).add(version)
    assert sorted(versions.values(), key=min) == [{BEFORE}] * planes + [{AFTER}] * planes
    assert max(len(state) for state in history.states) == planes + 1
    # A member may be silent for a moment on a busy machine: so these come among others, in this order.
    states = iter(sorted(state.values()) for state in history.states)
    for joined in range(planes):
        assert [BEFORE] * (planes - joined) + [AFTER] * joined in states
        assert [BEFORE] * (planes - joined) + [AFTER] * (joined + 1) in states
    assert [AFTER] * planes in states
    assert frozenset((BEFORE, AFTER)) in history.compared


async def is_upgraded(
    env: RealEnvironment, workload: Kubectl, etcd: EtcdOnNodes, planes: int, data: list[KeyValue]
) -> None:
    """All nodes and members are newer, with the data that there was, in the newer format."""
    await use.has_nodes(workload, control_planes=planes, workers=1, version=NEW)
    await use.carries_pods(workload)
    assert await use.etcd_members(workload) == planes
    assert await config_maps(etcd) == data
    formats = [minor_of(AFTER)] * planes

    async def statuses() -> list[Status]:
        return list((await etcd.look())[0].values())

    result = await eventually(statuses, lambda all_: [minor_of(item.storage_version) for item in all_] == formats)
    assert {status.version for status in result} == {AFTER}


async def downgrade_is_refused(env: RealEnvironment) -> None:
    """At once, whoever asks."""
    patch = f'{{"spec": {{"kubernetesVersion": "{OLDER}"}}}}'
    complaint = await env.management.refused("patch", CLUSTER, "--type=merge", "-p", patch)
    assert f"spec.kubernetesVersion: Kubernetes can't be downgraded from {NEWER}" in complaint
