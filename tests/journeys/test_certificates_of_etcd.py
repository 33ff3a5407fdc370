"""`espalier renew certificates` of clusters whose etcd has machines of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from espalier.api import conditions
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.cli.clusters.rollouts import etcd_certificates, rollouts
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.clusterapi import contract, external_etcd
from espalier.kube.client import Client
from tests.support.environments.environment import LocalEnvironment
from tests.support.waiting import eventually

pytestmark = pytest.mark.embedded

T = TypeVar("T")
MEADOW = Key("default", "meadow")
EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker-external-etcd.yaml").read_text()
RENEW = ("renew", "certificates", "meadow", "--timeout", "300s")


def asked(env: LocalEnvironment, story: Callable[[Client], Awaitable[T]]) -> T:
    """The result of a story with a client."""

    async def run() -> T:
        async with connection.connect(flags.Connection(env.home / "kubeconfig")) as connected:
            return await story(connected.client)

    return asyncio.run(run())


async def machines(client: Client) -> dict[str, set[str]]:
    """The names of machines by their part of the cluster."""
    parts: dict[str, set[str]] = {"etcd": set(), "control plane": set(), "workers": set()}
    for machine in (await client.list(Machine.resource, SYSTEM_NAMESPACE)).items:
        labels = machine.metadata.labels
        is_etcd, is_control_plane = external_etcd.MACHINE_LABEL in labels, contract.CONTROL_PLANE_LABEL in labels
        parts["etcd" if is_etcd else "control plane" if is_control_plane else "workers"].add(machine.name)
    return parts


async def settled(client: Client) -> None:
    """The control plane goes on, with the endpoints of the etcd that runs."""
    control_plane = (await client.get(KubeadmControlPlane.resource, "meadow", SYSTEM_NAMESPACE)).decode(
        KubeadmControlPlane
    )
    etcd = (await etcd_certificates.read(client, MEADOW)).typed
    assert contract.PAUSED_ANNOTATION not in control_plane.metadata.annotations
    assert external_etcd.is_ready(etcd)
    assert external_etcd.has_endpoints(control_plane, etcd)


async def ready(client: Client) -> None:
    await eventually(
        lambda: client.get(Cluster.resource, MEADOW.name, MEADOW.namespace),
        lambda cluster: conditions.is_true(cluster.decode(Cluster).status.conditions, "Ready"),
    )


@pytest.fixture(scope="module")
def meadow(env: LocalEnvironment) -> LocalEnvironment:
    made = env.apply(EXAMPLE)
    assert made.code == 0, made.err
    return env


def test_machines_of_etcd_are_listed_and_replaced(meadow: LocalEnvironment) -> None:
    before = asked(meadow, machines)
    listed = meadow.espalier("renew", "certificates", "meadow", "--dry-run", "server")
    assert listed.code == 0, listed.err
    (member,) = before["etcd"]
    row = next(line for line in listed.out.splitlines() if f"Machine {member}: etcd" in line)
    assert row.endswith("with its machine")
    assert asked(meadow, machines) == before
    done = meadow.espalier(*RENEW, "--component", "etcd")
    assert done.code == 0, done.err
    assert "etcd: 1 machine replaced, with new certificates" in done.err
    assert "the control plane: 1 machine replaced" in done.err
    after = asked(meadow, machines)
    assert not before["etcd"] & after["etcd"]
    assert not before["control plane"] & after["control plane"]
    assert after["workers"] == before["workers"]
    asked(meadow, settled)
    asked(meadow, ready)


def test_ended_renewal_of_etcd_goes_on(meadow: LocalEnvironment) -> None:
    """The command was killed after it had paused the control plane, and etcd has been replaced since."""

    async def killed(client: Client) -> None:
        owner = await rollouts.cluster(client, MEADOW)
        (target,) = await rollouts.targets(client, owner, [], control_plane=True)
        etcd = await etcd_certificates.read(client, MEADOW)
        await etcd_certificates._request(client, etcd)
        await etcd_certificates._pause(client, target, external_etcd.PAUSED_FOR_ETCD)

    before = asked(meadow, machines)
    asked(meadow, killed)
    done = meadow.espalier(*RENEW)
    assert done.code == 0, done.err
    assert "the kubeconfig is valid until" in done.err
    after = asked(meadow, machines)
    assert not before["etcd"] & after["etcd"]
    assert len(after["etcd"]) == 1
    assert not before["control plane"] & after["control plane"]
    asked(meadow, settled)
    # Once: a later command replaces them again, and only what was asked for.
    alone = meadow.espalier(*RENEW, "--component", "control-plane")
    assert alone.code == 0, alone.err
    assert asked(meadow, machines)["etcd"] == after["etcd"]


def test_paused_control_plane_keeps_its_etcd(meadow: LocalEnvironment) -> None:
    assert meadow.espalier("rollout", "pause", "meadow", "--control-plane").code == 0
    before = asked(meadow, machines)
    refused = meadow.espalier(*RENEW)
    assert (refused.code, "is paused: `espalier rollout resume` it before" in refused.err) == (1, True), refused.err
    assert asked(meadow, machines) == before
    assert meadow.espalier("rollout", "resume", "meadow", "--control-plane").code == 0
