"""Rollouts that a command asks for, on the objects of Cluster API alone: no controller acts on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from espalier.api import conditions
from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.core import NAMESPACE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.flux import KUSTOMIZATION
from espalier.api.resource import Key
from espalier.cli import main as cli
from espalier.cli.clusters.rollouts import rollouts
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.connection import Connected
from espalier.cli.kit.failures import Failure, Overdue, Usage
from espalier.cli.kit.printing import questions
from espalier.cli.kit.printing.progress import Progress
from espalier.clusterapi.machines.rollouts import is_before_rollout
from espalier.kube.client import Client, PatchType
from tests.support.objects.capi_site import CONTROL_PLANE, EXAMPLE, WORKERS, Site

BOTH = pytest.mark.parametrize("group", ["", "md-0"], ids=["control plane", "workers"])


@BOTH
async def test_a_restart_sets_a_time_and_nothing_else(group: str) -> None:
    site = await Site.made()
    target = await site.target(group)
    await rollouts.check_restart(site.client, [target], replaces_in_place=False)
    after = await rollouts.restart(site.client, [target])
    changed = await site.target(group)
    assert changed.after == after
    expected = target.object.tree["spec"]
    expected["rollout"] = {**expected.get("rollout", {}), "after": after}
    assert changed.object.tree["spec"] == expected


@BOTH
async def test_a_machine_of_this_second_is_replaced(group: str) -> None:
    """Cluster API compares whole seconds: it replaces machines that were made before that of the request."""
    site = await Site.made()
    target = await site.target(group)
    machines = (await site.client.list(Machine.resource, SYSTEM_NAMESPACE, labels=target.selector)).items
    after = await rollouts.restart(site.client, [target])
    assert machines
    assert rollouts.older(machines, after, datetime.max.replace(tzinfo=UTC)) == machines


@BOTH
async def test_a_restart_of_another_object_is_refused(group: str) -> None:
    """Deleted and created again since it was read."""
    site = await Site.made()
    target = await site.target(group)
    resource, name = type(target.typed).resource, target.object.name
    await site.client.delete(resource, name, SYSTEM_NAMESPACE)
    await site.add(resource, name, {}, target.object.tree["spec"])
    with pytest.raises(Exception, match="uid"):
        await rollouts.restart(site.client, [target])


@BOTH
async def test_a_paused_rollout_is_not_restarted(group: str) -> None:
    site = await Site.made()
    assert await rollouts.pause(site.client, await site.target(group))
    assert not await rollouts.pause(site.client, await site.target(group))
    assert "is paused: `espalier rollout resume` it before" in await site.refusal(group)
    assert await rollouts.resume(site.client, await site.target(group))
    assert not await rollouts.resume(site.client, await site.target(group))
    await rollouts.check_restart(site.client, [await site.target(group)], replaces_in_place=False)


async def test_a_pause_of_workers_by_annotation_is_resumed() -> None:
    site = await Site.made()
    metadata = {"annotations": {"cluster.x-k8s.io/paused": "true"}}
    await site.change(MachineDeployment.resource, "garden-md-0", metadata=metadata)
    assert await rollouts.resume(site.client, await site.target("md-0"))
    assert not (await site.target("md-0")).is_paused


@BOTH
async def test_an_upgrade_in_place_is_left_alone(group: str) -> None:
    site = await Site.made()
    metadata = {"annotations": {"cluster.x-k8s.io/paused": "in-place-upgrade"}}
    target = await site.target(group)
    await site.change(type(target.typed).resource, target.object.name, metadata=metadata)
    assert "is being upgraded in place: wait for it" in await site.refusal(group)
    for act in (rollouts.pause, rollouts.resume):
        with pytest.raises(Failure, match="is being upgraded in place"):
            await act(site.client, await site.target(group))


@BOTH
async def test_machines_without_room_stay_unless_asked(group: str) -> None:
    site = await Site.made(in_place=True)
    assert "give --replace-machines if there is room" in await site.refusal(group)
    await rollouts.check_restart(site.client, [await site.target(group)], replaces_in_place=True)


@BOTH
async def test_a_scheduled_rollout_is_not_moved(group: str) -> None:
    site = await Site.made()
    target = await site.target(group)
    later = conditions.timestamp(datetime.now(UTC) + timedelta(days=1))
    await site.change(type(target.typed).resource, target.object.name, spec={"rollout": {"after": later}})
    assert f"found {later}, which is to come; remove it before" in await site.refusal(group)


async def test_a_paused_cluster_is_not_restarted() -> None:
    site = await Site.made()
    await site.change(capi.Cluster.resource, "garden", spec={"paused": True})
    assert "Cluster garden of Cluster API is paused" in await site.refusal()


async def test_a_cluster_that_is_moved_is_left_alone() -> None:
    site = await Site.made()
    patch = {"metadata": {"annotations": {MOVE_ANNOTATION: "x"}}}
    await site.client.patch(Cluster.resource, "garden", "default", patch=patch, type=PatchType.MERGE)
    with pytest.raises(Failure, match="is being moved"):
        await site.owner()


async def test_an_unknown_group_and_cluster_are_named() -> None:
    site = await Site.made()
    with pytest.raises(Usage, match="GROUP: found md-1, allowed: md-0; --control-plane for the control plane"):
        await rollouts.targets(site.client, await site.owner(), ["md-1"], control_plane=False)
    with pytest.raises(Failure, match="cluster default/orchard does not exist"):
        await rollouts.cluster(site.client, Key("default", "orchard"))


async def test_objects_of_another_namespace_are_not_taken() -> None:
    """A Cluster of the same name in another namespace has no machines of its own."""
    site = await Site.made()
    other = next(yaml.safe_load_all(EXAMPLE.read_text()))
    other["metadata"]["namespace"] = "kube-public"
    await site.client.create(Cluster.resource, other)
    owner = await rollouts.cluster(site.client, Key("kube-public", "garden"))
    with pytest.raises(Failure, match="has no control plane of Cluster API here"):
        await rollouts.targets(site.client, owner, [], control_plane=True)


@BOTH
async def test_a_restart_under_way_is_taken_back(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site = await Site.made()
    now = datetime.now(UTC) + timedelta(minutes=1)

    async def later(_client: Client) -> datetime:
        return now

    monkeypatch.setattr(rollouts, "server_time", later)
    await rollouts.restart(site.client, [await site.target(group)])
    undo = await rollouts.undo_of(site.client, await site.owner(), await site.target(group))
    assert (undo.stay, undo.again) == (2 if group else 1, 0)
    await rollouts.undo(site.client, undo.target)
    assert (await site.target(group)).after is None
    with pytest.raises(Failure, match="there is nothing to undo"):
        await rollouts.undo_of(site.client, await site.owner(), await site.target(group))


async def half_restarted(site: Site, monkeypatch: pytest.MonkeyPatch, group: str, *, old: int, new: int) -> None:
    """One machine of the group is new, and its MachineSets have so many replicas."""
    target = await site.target(group)
    labels, spec = CONTROL_PLANE, target.object.tree["spec"].get("template", {}).get("spec", {})
    if group:
        of_set = {"clusterName": "garden", "selector": {"matchLabels": WORKERS}, "template": {"spec": spec}}
        labels = WORKERS
        await site.add(MachineSet.resource, "old", WORKERS, of_set | {"replicas": old})
    youngest = (MachineSet.resource, "old") if group else (Machine.resource, "md-1")
    created = (await site.client.get(*youngest, SYSTEM_NAMESPACE)).metadata.creation_timestamp
    made = conditions.parse_timestamp(created or "")
    assert made is not None
    after = made + timedelta(seconds=1)
    await asyncio.sleep((after - datetime.now(UTC)).total_seconds() + 0.01)  # creation times are of whole seconds
    machine = (await site.client.get(Machine.resource, "md-1", SYSTEM_NAMESPACE)).tree["spec"]
    await site.add(Machine.resource, "new", labels, machine)
    if group:
        await site.add(MachineSet.resource, "new", WORKERS, of_set | {"replicas": new})
    await site.change(
        type(target.typed).resource, target.object.name, spec={"rollout": {"after": conditions.timestamp(after)}}
    )

    async def later(_client: Client) -> datetime:
        return after + timedelta(minutes=1)

    monkeypatch.setattr(rollouts, "server_time", later)


@pytest.mark.parametrize(("group", "again"), [("", 0), ("md-0", 1)])
async def test_new_machines_of_a_group_are_replaced_again(
    group: str, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = await Site.made()
    await half_restarted(site, monkeypatch, group, old=1, new=1)
    undo = await rollouts.undo_of(site.client, await site.owner(), await site.target(group))
    assert (undo.stay, undo.again) == (2 if group else 1, again)


async def test_restart_of_most_machines_is_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    site = await Site.made()
    await half_restarted(site, monkeypatch, "md-0", old=1, new=2)
    with pytest.raises(Failure, match="would go on, because it keeps those of which there are most"):
        await rollouts.undo_of(site.client, await site.owner(), await site.target("md-0"))


@pytest.mark.parametrize("flags", [[], ["--replace-machines"]], ids=["unasked", "asked"])
def test_undo_that_replaces_machines_is_confirmed(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal, by a flag."""
    taken_back = []

    async def main() -> Site:
        site = await Site.made()
        await half_restarted(site, monkeypatch, "md-0", old=1, new=1)
        return site

    @asynccontextmanager
    async def connect(_flags: object) -> AsyncIterator[Connected]:
        yield Connected((await main()).client, "default")

    async def undo(_client: Client, target: rollouts.Target) -> None:
        taken_back.append(target.group)

    monkeypatch.setattr(connection, "connect", connect)
    monkeypatch.setattr(rollouts, "undo", undo)
    code, err = cli.run(["rollout", "undo", "garden", "md-0", *flags]), ""
    err = " ".join(capsys.readouterr().err.split())
    if flags:
        assert (code, taken_back) == (0, ["md-0"])
        assert "the restart is taken back, 2 machines not replaced yet stay, 1 new machine is replaced again" in err
    else:
        assert (code, taken_back) == (2, [])
        assert "worker node group md-0: 1 new machine is replaced again if the restart is taken back" in err
        assert "`espalier rollout pause garden md-0`" in err


def test_undo_is_judged_again_after_the_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the user thinks, the rollout goes on."""

    @asynccontextmanager
    async def connect(_flags: object) -> AsyncIterator[Connected]:
        site = await Site.made()
        await half_restarted(site, monkeypatch, "md-0", old=1, new=1)
        yield Connected(site.client, "default")

    async def too_late(*_: object) -> rollouts.Undo:
        raise Failure("Cluster API would go on")

    def confirmed(_question: str) -> bool:
        monkeypatch.setattr(rollouts, "undo_of", too_late)
        return True

    async def undo(_client: Client, target: rollouts.Target) -> None:
        raise AssertionError(target)

    monkeypatch.setattr(connection, "connect", connect)
    monkeypatch.setattr(questions, "are_possible", lambda: True)
    monkeypatch.setattr(questions, "confirmed", confirmed)
    monkeypatch.setattr(rollouts, "undo", undo)
    assert cli.run(["rollout", "undo", "garden", "md-0"]) == 1
    assert "Cluster API would go on" in capsys.readouterr().err


async def outdated(site: Site) -> None:
    status = {"replicas": 3, "upToDateReplicas": 1}
    patch = {"status": status}
    await site.client.patch(
        KubeadmControlPlane.resource,
        "garden",
        SYSTEM_NAMESPACE,
        patch=patch,
        type=PatchType.MERGE,
        subresource="status",
    )


async def test_a_changed_spec_is_taken_back_in_its_manifest() -> None:
    site = await Site.made()
    await outdated(site)
    with pytest.raises(Failure, match="change the spec back in your manifest, and apply it"):
        await rollouts.undo_of(site.client, await site.owner(), await site.target())


async def test_a_change_from_git_is_taken_back_in_its_file() -> None:
    labels = {f"{KUSTOMIZATION.group}/name": "garden", f"{KUSTOMIZATION.group}/namespace": "flux-system"}
    site = await Site.made(labels=labels)
    await site.client.create(NAMESPACE, {"metadata": {"name": "flux-system"}})
    kustomization = {
        "metadata": {"name": "garden", "namespace": "flux-system"},
        "spec": {
            "path": "clusters/garden",
            "interval": "1m",
            "prune": True,
            "sourceRef": {"kind": "GitRepository", "name": "x"},
        },
    }
    await site.client.create(KUSTOMIZATION, kustomization)
    await outdated(site)
    with pytest.raises(Failure, match=r"change clusters/garden/\S+ there"):
        await rollouts.undo_of(site.client, await site.owner(), await site.target())


async def test_a_wait_tells_how_far_a_restart_came() -> None:
    site = await Site.made()
    target = await site.target("md-0")
    after = conditions.timestamp(datetime.now(UTC) + timedelta(minutes=1))
    with pytest.raises(Overdue, match="worker node group md-0: 0 of 2 machines new, 2 old, 0 ready after"):
        await rollouts.until_replaced(site.client, target, after, timeout=0.2, progress=Progress())


async def test_a_wait_ends_when_all_are_new_and_ready() -> None:
    site = await Site.made()
    target, after = await site.target("md-0"), "2001-01-01T00:00:00Z"
    now = conditions.timestamp(datetime.now(UTC))
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": now}
    for name in ("md-1", "md-2"):
        await site.client.patch(
            Machine.resource,
            name,
            SYSTEM_NAMESPACE,
            patch={"status": {"conditions": [ready]}},
            type=PatchType.MERGE,
            subresource="status",
        )
    assert await rollouts.until_replaced(site.client, target, after, timeout=5, progress=Progress()) == 2


@pytest.mark.parametrize(
    ("created", "after", "expected"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", True),
        ("2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z", False),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:03Z", False),
        ("2026-01-01T00:00:00Z", None, False),
        (None, "2026-01-01T00:00:01Z", False),
        ("2026-01-01T00:00:00Z", "soon", False),
    ],
)
def test_a_time_replaces_what_is_older(created: str | None, after: str | None, *, expected: bool) -> None:
    now = datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert is_before_rollout(created, after, now) is expected
