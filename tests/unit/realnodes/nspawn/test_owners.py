"""Nodes of several management clusters on one machine. The nodes are off, so that nothing is done for them here."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from espalier.api.capi.cluster import Cluster
from espalier.api.core import SECRET
from espalier.api.moves import DELETE_FOR_MOVE
from espalier.api.resource import Key
from espalier.apiserver.storage.store import MemoryStore
from espalier.clusterapi.names import PAUSED
from espalier.kube.client import PatchType
from espalier.kube.objects import Object, encode_json
from espalier.providers.docker.cluster_api import DockerMachine
from espalier.realnodes.nspawn import owners
from espalier.realnodes.nspawn.system.state import EndpointRecord, NodeRecord, State, node_id
from tests.support.environments.node_provider import DATA, NoBases, Provider, body, provider, says

AUTHORITY, OTHER = b"key of one authority", b"key of another"
SOURCE_UID = "0f3a9c1d-7b7e-4f0a-8d52-2a1f6f1a0001"
TARGET = "fingerprint-of-the-target"
LABELS = {"cluster.x-k8s.io/cluster-name": "garden"}


def secret(key: bytes) -> dict[str, object]:
    """The Secret of an authority. All have the same certificate, as a copy of a public one may be."""
    data = {name: base64.b64encode(text).decode() for name, text in (("tls.crt", b"certificate"), ("tls.key", key))}
    return body(SECRET, "garden-ca", labels=LABELS) | {"data": data}


def fingerprint(key: bytes) -> str:
    return owners.fingerprint(Object(encode_json(secret(key))))


NODE = NodeRecord(
    id=node_id(SOURCE_UID),
    name="garden-a",
    namespace="default",
    uid=SOURCE_UID,
    cluster="garden",
    address="10.79.0.3",
    version="1.20.9",
    crashed=True,
    authority=fingerprint(AUTHORITY),
    endpoint="10.79.0.2",
)


def recorded(folder: Path, **fields: object) -> State:
    """The records of a former run, with one node of the source."""
    state = State(folder)
    state.write_node(msgspec.structs.replace(NODE, **fields))
    return state


async def arrives(env: Provider, *, authority: bytes = AUTHORITY, paused: bool = False) -> None:
    """The objects of a cluster as a move writes them: a provisioned machine, and the authority."""
    spec = {"paused": True} if paused else {}
    await env.client.create(Cluster.resource, body(Cluster.resource, "garden", spec=spec))
    await env.client.create(SECRET, secret(authority))
    await env.until(Cluster.resource, "garden", lambda value: value is not None)
    await env.until(SECRET, "garden-ca", lambda value: value is not None)
    await env.make_machine("garden-a", DATA, provider_id="docker:////garden-a")


async def test_moved_machine_keeps_its_node(tmp_path: Path) -> None:
    recorded(tmp_path / "nodes")
    async with provider(tmp_path / "nodes", MemoryStore(), NoBases(), owner=TARGET) as env:
        await arrives(env)
        await env.until(DockerMachine.resource, "garden-a", says("NodeStopped"))
        machine = await env.client.get(DockerMachine.resource, "garden-a", "default")
        uid = machine.metadata.uid
        assert env.state.nodes() == [msgspec.structs.replace(NODE, owner=TARGET, uid=uid, instance=SOURCE_UID)]
        assert env.state.nodes()[0].instance_id == SOURCE_UID


async def test_cluster_of_equal_name_leaves_others_nodes(tmp_path: Path) -> None:
    recorded(tmp_path / "nodes")
    async with provider(tmp_path / "nodes", MemoryStore(), NoBases(), owner=TARGET) as env:
        await arrives(env, authority=OTHER)
        await env.until(DockerMachine.resource, "garden-a", says("NodeMissing"))
        assert env.state.nodes() == [NODE]
        await env.delete_machine("garden-a")
        assert env.state.nodes() == [NODE]


async def test_node_is_not_taken_over_while_paused(tmp_path: Path) -> None:
    recorded(tmp_path / "nodes")
    async with provider(tmp_path / "nodes", MemoryStore(), NoBases(), owner=TARGET) as env:
        await arrives(env, paused=True)
        await env.until(DockerMachine.resource, "garden-a", lambda value: value is not None)
        assert env.state.nodes() == [NODE]
        patch = {"spec": {"paused": None}}
        await env.client.patch(Cluster.resource, "garden", "default", patch=patch, type=PatchType.MERGE)
        await env.until(DockerMachine.resource, "garden-a", says("NodeStopped"))
        assert env.state.nodes()[0].owner == TARGET


@pytest.mark.parametrize("is_alone", [False, True])
async def test_deletion_for_a_move_leaves_the_node(tmp_path: Path, is_alone: bool) -> None:
    """Also if no other management cluster of this machine may act on it."""
    recorded(tmp_path / "nodes", owner=TARGET)
    async with provider(tmp_path / "nodes", MemoryStore(), NoBases(), is_alone=is_alone) as env:
        await arrives(env)
        await env.until(DockerMachine.resource, "garden-a", says("NodeStopped"))
        adopted = env.state.nodes()
        marked = {"metadata": {"annotations": {DELETE_FOR_MOVE: ""}}}
        await env.client.patch(DockerMachine.resource, "garden-a", "default", patch=marked, type=PatchType.MERGE)
        await env.client.delete(DockerMachine.resource, "garden-a", "default")
        freed = {"metadata": {"finalizers": None}}
        await env.client.delete(Cluster.resource, "garden", "default")
        await env.until(Cluster.resource, "garden", lambda value: value is None)
        await env.client.patch(DockerMachine.resource, "garden-a", "default", patch=freed, type=PatchType.MERGE)
        await env.until(DockerMachine.resource, "garden-a", lambda value: value is None)
        await env.reconcile_machine("garden-a")
        assert env.state.nodes() == [msgspec.structs.replace(adopted[0], owner=owners.MOVED_AWAY)]


@pytest.mark.parametrize("is_alone", [None, False])
async def test_move_while_the_source_is_down_keeps_node(tmp_path: Path, is_alone: bool | None) -> None:
    """Its new management cluster has not taken it over yet, and the Cluster is gone here."""
    recorded(tmp_path / "nodes", owner=TARGET)
    async with provider(tmp_path / "nodes", MemoryStore(), NoBases(), owner=TARGET, is_alone=is_alone) as env:
        await env.reconcile_machine("garden-a")
        assert [node.owner for node in env.state.nodes()] == [TARGET]


async def test_pause_that_no_cache_knows_keeps_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / "nodes")
    async with provider(tmp_path / "nodes", MemoryStore(), NoBases(), owner=TARGET) as env:
        await arrives(env)
        await env.until(DockerMachine.resource, "garden-a", says("NodeStopped"))
        known = env.cache(Cluster.resource).get(Key("default", "garden"))
        monkeypatch.setattr(env.cache(Cluster.resource), "get", lambda _key: known)
        for resource, name, patch in (
            (Cluster.resource, "garden", {"spec": {"paused": True}}),
            (
                DockerMachine.resource,
                "garden-a",
                {"metadata": {"finalizers": None, "annotations": {PAUSED: ""}}},
            ),
        ):
            await env.client.patch(resource, name, "default", patch=patch, type=PatchType.MERGE)
        await env.client.delete(DockerMachine.resource, "garden-a", "default")
        await env.until(DockerMachine.resource, "garden-a", lambda value: value is None)
        await env.reconcile_machine("garden-a")
        assert [node.owner for node in env.state.nodes()] == [TARGET]


def cluster(**spec: object) -> Object:
    return Object(encode_json(body(Cluster.resource, "garden", spec=spec)))


@pytest.mark.parametrize(
    ("of_node", "is_alone", "ended"),
    [
        (cluster, False, True),
        (lambda: cluster(paused=True), True, False),
        (lambda: None, True, True),
        (lambda: None, False, False),
    ],
    ids=["finalizer taken off", "being moved", "data lost", "moved away"],
)
def test_node_without_object_ends_unless_moved(
    of_node: Callable[[], Object | None], is_alone: bool, ended: bool
) -> None:
    assert owners.has_ended(of_node(), is_alone=is_alone) is ended


def test_node_is_behind_the_address_it_was_made_with() -> None:
    own = EndpointRecord("default/garden", "uid", "10.79.0.2", 6443)
    other = msgspec.structs.replace(own, address="10.79.0.9")
    assert owners.is_behind(NODE, own)
    assert not owners.is_behind(NODE, other)
    assert owners.is_behind(msgspec.structs.replace(NODE, endpoint=""), own)  # of an earlier release


async def test_record_follows_a_renewed_authority(tmp_path: Path) -> None:
    recorded(tmp_path / "nodes")
    async with provider(tmp_path / "nodes", MemoryStore(), NoBases(), owner=TARGET) as env:
        await arrives(env)
        await env.until(DockerMachine.resource, "garden-a", says("NodeStopped"))
        patch = {"data": secret(OTHER)["data"]}
        await env.client.patch(SECRET, "garden-ca", "default", patch=patch, type=PatchType.MERGE)
        await env.until(SECRET, "garden-ca", lambda new: owners.fingerprint(new) == fingerprint(OTHER))
        await env.reconcile_machine("garden-a")
        assert env.state.nodes()[0].authority == fingerprint(OTHER)


@pytest.mark.parametrize("of_nobody", [None, b"", b" \n"])
def test_authority_without_key_matches_nothing(of_nobody: bytes | None) -> None:
    assert (fingerprint(of_nobody) if of_nobody is not None else owners.fingerprint(None)) == ""
    nameless = msgspec.structs.replace(NODE, authority="")
    assert owners.moved_here([nameless], Key("default", "garden-a"), "") is None


@pytest.mark.parametrize(
    ("behind", "may"),
    [
        ([NODE], True),
        ([msgspec.structs.replace(NODE, authority="")], True),
        ([NODE, msgspec.structs.replace(NODE, authority=fingerprint(OTHER))], False),
        ([msgspec.structs.replace(NODE, authority=fingerprint(OTHER))], False),
        ([msgspec.structs.replace(NODE, authority=fingerprint(OTHER), endpoint="10.79.0.9")], True),
        ([], True),
    ],
    ids=["its own", "unknown", "mixed", "another's", "another address", "none"],
)
def test_address_goes_to_the_cluster_of_its_nodes(behind: list[NodeRecord], may: bool) -> None:
    endpoint = EndpointRecord("default/garden", "uid", "10.79.0.2", 6443)
    assert owners.may_have(endpoint, behind, fingerprint(AUTHORITY)) is may
