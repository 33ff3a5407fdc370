"""The client means the same to every API server: the embedded one, in this process or over HTTPS, and the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE, SECRET
from espalier.api.resource import Resource
from espalier.apiserver.http import HttpShell
from espalier.apiserver.server import Server
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.access import Access, Impersonation
from espalier.kube.connection.kubeconfig import Kubeconfig, in_cluster_access
from espalier.kube.connection.pki import Authority
from espalier.kube.discovery import Discovery, UnknownResource
from espalier.kube.errors import AlreadyExists, BadRequest, Conflict, Expired, Forbidden, Invalid, NotFound
from espalier.kube.objects import Object
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.threaded import ThreadedTransport
from espalier.kube.transports.wire import Request, Transport
from espalier.kube.watching import WatchEvent
from tests.support.environments.control_plane import ControlPlane


@pytest.fixture
async def shell_access(in_memory: Server) -> AsyncIterator[Access]:
    now = datetime.now(UTC)
    authority = Authority.create("contract", now=now)
    serving = authority.issue_server("kube-apiserver", names=["127.0.0.1"], now=now)
    administrator = authority.issue_client("admin", groups=["system:masters"], now=now)
    shell = HttpShell(in_memory, serving=serving, client_ca=authority.certificate)
    await shell.start()
    yield Access(
        shell.url,
        certificate_authority=authority.certificate,
        client_certificate=administrator.certificate,
        client_key=administrator.key,
    )
    await shell.stop()


@pytest.fixture(
    params=[
        pytest.param("inprocess", marks=pytest.mark.embedded),
        pytest.param("https", marks=pytest.mark.embedded),
        pytest.param("threads", marks=pytest.mark.embedded),
        pytest.param("real", marks=pytest.mark.envtest),
    ]
)
def transport(request: pytest.FixtureRequest) -> Transport:
    match request.param:
        case "inprocess":
            return InProcessTransport(request.getfixturevalue("in_memory"))
        case "https":
            return HttpTransport(request.getfixturevalue("shell_access"), environment={})
        case "threads":
            return ThreadedTransport(request.getfixturevalue("shell_access"), environment={})
        case _:
            return real_transport(request.getfixturevalue("control_plane"))


def real_transport(real: ControlPlane) -> HttpTransport:
    return HttpTransport(Kubeconfig.load([real.kubeconfig]).context(), environment={})


@pytest.fixture
async def real_client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    client = Client(real_transport(control_plane), field_manager="contract")
    yield client
    await client.close()


@pytest.fixture
async def client(transport: Transport) -> AsyncIterator[Client]:
    client = Client(transport, field_manager="contract")
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: Client) -> str:
    return (await client.create(NAMESPACE, {"metadata": {"generateName": "client-"}})).name


def config_map(namespace: str, name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, "data": data or {}}


def data_of(object_: Object) -> dict[str, str]:
    return dict(object_.tree.get("data", {}))


async def test_an_object_lives_and_dies(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAP, config_map(namespace, "a", {"k": "1"}))
    assert (created.kind, created.key) == ("ConfigMap", (namespace, "a"))
    assert created.metadata.uid
    read = await client.get(CONFIG_MAP, "a", namespace)
    assert (read.resource_version, data_of(read)) == (created.resource_version, {"k": "1"})
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAP, config_map(namespace, "a"))
    assert await client.delete(CONFIG_MAP, "a", namespace) is None
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, "a", namespace)
    with pytest.raises(NotFound):
        await client.delete(CONFIG_MAP, "a", namespace)


async def test_a_list_is_read_page_by_page(client: Client, namespace: str) -> None:
    for index in range(7):
        labels = {"parity": "odd" if index % 2 else "even"}
        await client.create(CONFIG_MAP, config_map(namespace, f"cm-{index}", labels=labels))
    pages = [page async for page in client.pages(CONFIG_MAP, namespace, labels="parity", limit=3)]
    assert [len(page.items) for page in pages] == [3, 3, 1]
    assert len({page.resource_version for page in pages}) == 1
    objects = await client.list(CONFIG_MAP, namespace, labels="parity", limit=2)
    assert [item.name for item in objects.items] == [f"cm-{index}" for index in range(7)]
    assert {(item.kind, item.tree["apiVersion"]) for item in objects.items} == {("ConfigMap", "v1")}
    odd = await client.list(CONFIG_MAP, namespace, labels="parity in (odd)")
    assert [item.name for item in odd.items] == ["cm-1", "cm-3", "cm-5"]
    config_maps = await client.list(CONFIG_MAP, fields=f"metadata.name=cm-4,metadata.namespace={namespace}")
    assert [item.name for item in config_maps.items] == ["cm-4"]


async def next_of(events: AsyncIterator[WatchEvent]) -> tuple[str, str]:
    async with asyncio.timeout(10):
        while True:
            event = await anext(events)
            if event.type != "BOOKMARK":
                return event.type, event.object.name


async def test_a_watch_sends_the_events_since_its_version(client: Client, namespace: str) -> None:
    start = (await client.list(CONFIG_MAP, namespace, labels="seen=yes")).resource_version
    created = await client.create(CONFIG_MAP, config_map(namespace, "a", labels={"seen": "yes"}))
    watch = client.watch(CONFIG_MAP, namespace, resource_version=start, labels="seen=yes")
    async with aclosing(watch) as events:
        assert await next_of(events) == ("ADDED", "a")
        await client.apply(CONFIG_MAP, config_map(namespace, "a", {"k": "1"}, labels={"seen": "yes"}))
        assert await next_of(events) == ("MODIFIED", "a")
        await client.patch(
            CONFIG_MAP, "a", namespace, patch={"metadata": {"labels": {"seen": None}}}, type=PatchType.MERGE
        )
        assert await next_of(events) == ("DELETED", "a")  # it left what is selected
    again = client.watch(CONFIG_MAP, namespace, resource_version=created.resource_version, fields="metadata.name=a")
    async with aclosing(again) as events:
        assert await next_of(events) == ("MODIFIED", "a")
        assert await next_of(events) == ("MODIFIED", "a")
        await client.delete(CONFIG_MAP, "a", namespace)
        assert await next_of(events) == ("DELETED", "a")


@pytest.mark.often("inprocess", "real")
async def test_the_server_ends_a_watch_in_time(client: Client, namespace: str) -> None:
    start = (await client.list(SECRET, namespace)).resource_version
    async with asyncio.timeout(10):
        watch = client.watch(SECRET, namespace, resource_version=start, timeout_seconds=1)
        assert [event.type async for event in watch if event.type != "BOOKMARK"] == []


@pytest.mark.envtest
async def test_a_moment_before_the_servers_memory_is_expired(real_client: Client) -> None:
    """The real server remembers a kind from its first request on; the embedded one has other limits."""
    crd = {
        "metadata": {"name": "gadgets.contract.test"},
        "spec": {
            "group": "contract.test",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }
    client = real_client
    created = await client.apply(CUSTOM_RESOURCE_DEFINITION, crd)
    selected = "metadata.name=gadgets.contract.test"
    watch = client.watch(
        CUSTOM_RESOURCE_DEFINITION, resource_version=created.resource_version, fields=selected, timeout_seconds=10
    )
    async with aclosing(watch) as events:
        async for event in events:
            conditions = event.object.tree.get("status", {}).get("conditions", [])
            if any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions):
                break
    gadgets = Resource("contract.test", "v1", "gadgets", "Gadget")
    async with aclosing(client.watch(gadgets, resource_version="1", timeout_seconds=5)) as past:
        with pytest.raises(Expired):
            await anext(past)
    await client.delete(CUSTOM_RESOURCE_DEFINITION, "gadgets.contract.test")


async def test_a_replacement_must_know_the_latest_version(client: Client, namespace: str) -> None:
    first = await client.create(CONFIG_MAP, config_map(namespace, "a", {"k": "1"}))
    tree = first.tree
    tree["data"] = {"k": "2"}
    second = await client.replace(CONFIG_MAP, tree)
    assert data_of(second) == {"k": "2"}
    with pytest.raises(Conflict):
        await client.replace(CONFIG_MAP, tree)
    assert (await client.replace(CONFIG_MAP, second)).resource_version == second.resource_version


async def test_patches_change_a_part(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map(namespace, "a", {"k": "1", "l": "1"}))
    merged = await client.patch(CONFIG_MAP, "a", namespace, patch={"data": {"k": "2", "l": None}}, type=PatchType.MERGE)
    assert data_of(merged) == {"k": "2"}
    operations = [{"op": "test", "path": "/data/k", "value": "2"}, {"op": "add", "path": "/data/m", "value": "3"}]
    assert data_of(await client.patch(CONFIG_MAP, "a", namespace, patch=operations, type=PatchType.JSON)) == {
        "k": "2",
        "m": "3",
    }
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"k": "3"}}
    with pytest.raises(Conflict):
        await client.patch(CONFIG_MAP, "a", namespace, patch=stale, type=PatchType.MERGE)


async def test_applied_fields_belong_to_their_manager(client: Client, namespace: str) -> None:
    await client.apply(CONFIG_MAP, config_map(namespace, "a", {"ours": "1", "shared": "1"}))
    theirs = config_map(namespace, "a", {"shared": "2"})
    with pytest.raises(Conflict) as caught:
        await client.apply(CONFIG_MAP, theirs, force=False, field_manager="other")
    assert caught.value.status.details is not None
    assert [cause.field for cause in caught.value.status.details.causes] == [".data.shared"]
    taken = await client.apply(CONFIG_MAP, config_map(namespace, "a", {"shared": "2"}), field_manager="other")
    assert data_of(taken) == {"ours": "1", "shared": "2"}
    left = await client.apply(CONFIG_MAP, config_map(namespace, "a", {"new": "1"}))
    assert data_of(left) == {"new": "1", "shared": "2"}
    same = await client.apply(CONFIG_MAP, config_map(namespace, "a", {"new": "1"}))
    assert same.resource_version == left.resource_version


async def test_a_dry_run_writes_nothing(client: Client, namespace: str) -> None:
    assert (await client.create(CONFIG_MAP, config_map(namespace, "a"), dry_run=True)).name == "a"
    assert (await client.apply(CONFIG_MAP, config_map(namespace, "a"), dry_run=True)).name == "a"
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, "a", namespace)
    await client.create(CONFIG_MAP, config_map(namespace, "a"))
    await client.delete(CONFIG_MAP, "a", namespace, dry_run=True)
    assert await client.get(CONFIG_MAP, "a", namespace)


async def test_finalizer_and_preconditions_protect_an_object(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAP, config_map(namespace, "a", finalizers=["example.test/hold"]))
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAP, "a", namespace, uid="00000000-0000-0000-0000-000000000000")
    held = await client.delete(CONFIG_MAP, "a", namespace, uid=created.metadata.uid)
    assert held is not None
    assert held.metadata.deletion_timestamp
    released = {"metadata": {"finalizers": None}}
    await client.patch(CONFIG_MAP, "a", namespace, patch=released, type=PatchType.MERGE)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, "a", namespace)


async def test_an_unknown_field_and_a_wrong_name_are_refused(client: Client, namespace: str) -> None:
    with pytest.raises(BadRequest, match="dta"):
        await client.create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": namespace}, "dta": {}})
    with pytest.raises(Invalid) as caught:
        await client.create(CONFIG_MAP, config_map(namespace, "Not_a_name"))
    assert caught.value.status.details is not None
    assert [cause.field for cause in caught.value.status.details.causes] == ["metadata.name"]
    assert (await client.list(CONFIG_MAP, namespace, labels="!other", fields="metadata.name=a")).items == []


async def test_kinds_plurals_and_short_names_resolve(client: Client) -> None:
    discovery = Discovery(client)
    assert await discovery.resolve("cm") == CONFIG_MAP
    assert await discovery.resolve("Namespace") == NAMESPACE
    assert await discovery.resolve("secret") == SECRET
    with pytest.raises(UnknownResource):
        await discovery.resolve("gadgets.example.test")


async def test_other_paths_can_be_asked(client: Client) -> None:
    response = await client.raw(Request("GET", "/readyz"))
    assert (response.status, response.body) == (200, b"ok")
    assert (await client.raw(Request("GET", "/no/such/path"))).status == 404


async def test_scale_and_status_are_written_on_their_own(client: Client, namespace: str) -> None:
    labels = {"app": "a"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    deployment = {
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pods},
    }
    await client.create(DEPLOYMENT, deployment)
    scale = await client.get(DEPLOYMENT, "a", namespace, subresource="scale")
    assert (scale.kind, scale.tree["spec"]) == ("Scale", {"replicas": 1})
    three = {"spec": {"replicas": 3}}
    await client.patch(DEPLOYMENT, "a", namespace, patch=three, type=PatchType.MERGE, subresource="scale")
    status = {"metadata": deployment["metadata"], "status": {"replicas": 3, "observedGeneration": 2}}
    await client.apply(DEPLOYMENT, status, subresource="status")
    result = (await client.get(DEPLOYMENT, "a", namespace)).tree
    assert (result["spec"]["replicas"], result["status"]) == (3, status["status"])


@pytest.mark.envtest
async def test_a_pod_speaks_as_its_service_account(
    real_client: Client, control_plane: ControlPlane, tmp_path: Path
) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    wanted = b'{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}'
    granted = await real_client.raw(Request("POST", path, headers={"content-type": "application/json"}, body=wanted))
    (tmp_path / "token").write_text(msgspec.json.decode(granted.body)["status"]["token"])
    (tmp_path / "ca.crt").write_bytes(control_plane.ca)
    host, port = control_plane.url.removeprefix("https://").split(":")
    in_cluster = in_cluster_access({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}, tmp_path)
    assert in_cluster is not None
    pod = Client(HttpTransport(in_cluster, environment={}))
    with pytest.raises(Forbidden, match="system:serviceaccount:default:default"):
        await pod.list(SECRET, "default")
    await pod.close()


@pytest.mark.envtest
async def test_an_administrator_acts_as_another(control_plane: ControlPlane) -> None:
    administrator = Kubeconfig.load([control_plane.kubeconfig]).context()
    as_another = replace(administrator, impersonation=Impersonation("jane", groups=("ops", "system:masters")))
    client = Client(HttpTransport(as_another, environment={}))
    assert (await client.list(NAMESPACE, fields="metadata.name=default")).items
    await client.close()
    as_nobody = replace(administrator, impersonation=Impersonation("jane", groups=("ops",)))
    client = Client(HttpTransport(as_nobody, environment={}))
    with pytest.raises(Forbidden, match='"jane"'):
        await client.list(NAMESPACE)
    await client.close()
