"""Whom a Secret with credentials is for: the servers and namespaces that clusters use, whoever writes at once."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from espalier.api.core import NAMESPACE, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.clusters.manifests import credential_secrets
from espalier.cli.clusters.manifests.preflight import bring_credentials
from espalier.cli.kit.failures import Failure
from espalier.cli.local.environment.management import install_definitions
from espalier.cli.management.bootstraps import ExistingBootstrap
from espalier.clusters.design.secrets.credentials import NAMESPACES, SERVERS
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.management import record as records
from espalier.providers.kinds import CATALOG, EKSA_KINDS
from espalier.providers.registry import PROVIDERS
from tests.support.providers import snow
from tests.support.providers.every_provider import KINDS, MIRROR, SAMPLES, apply
from tests.support.servers.embedded_server import new_server
from tests.support.servers.faults import Interceptor

SERVER_TEXTS = {
    "VSphereDatacenterConfig": "vcenter.example.com",
    "NutanixDatacenterConfig": "prism.example.com",
    "CloudStackDatacenterConfig": "cloudstack.example.com",
    "SnowDatacenterConfig": snow.DEVICE,
}
"""The server of a sample, by which its manifest is made to name others."""

VSPHERE = "VSphereDatacenterConfig"
MIRROR_HOST = MIRROR.partition(":")[0]


def at(number: int) -> str:
    """The server of a cluster of this number, or its mirror of registries."""
    return f"192.0.2.{200 + number}"


def manifest(kind: str, name: str, number: int, namespace: str = "team-a") -> list[Tree]:
    """A cluster with a server and a mirror of its own."""
    text = json.dumps(SAMPLES[kind].cluster(namespace, name, number)).replace(MIRROR_HOST, at(number))
    server = SERVER_TEXTS.get(kind)
    trees: list[Tree] = json.loads(text.replace(server, at(number)) if server else text)
    return trees


def variables(kind: str, folder: Path, password: str) -> Mapping[str, str]:
    """All that a command's environment gives, with this password."""
    profile = f"aws_access_key_id = a\naws_secret_access_key = {password}\n"
    (folder / "profiles").write_text("".join(f"[{at(number)}]\n{profile}" for number in range(9)))
    (folder / "authorities").write_text(snow.AUTHORITY)
    server = f"https://{at(0)}:8443/client/api"
    keys = f"[Global]\napi-url = {server}\napi-key = a\nsecret-key = {password}\n"
    names = [name for group in PROVIDERS[kind].joint_variables for name in group]
    return {
        **{name: name if "USERNAME" in name else password for name in names},
        "EKSA_AWS_CREDENTIALS_FILE": str(folder / "profiles"),
        "EKSA_AWS_CA_BUNDLES_FILE": str(folder / "authorities"),
        "EKSA_CLOUDSTACK_B64ENCODED_SECRET": base64.b64encode(keys.encode()).decode(),
        "REGISTRY_USERNAME": "a",
        "REGISTRY_PASSWORD": password,
    }


class Interleaved(Interceptor):
    """Every request waits for its turn, so that those of several commands alternate."""

    async def request(self, transport: Transport, request: Request) -> Response:
        await asyncio.sleep(0)
        answer = await transport.request(request)
        await asyncio.sleep(0)
        return answer


def story(kind: str, act: Callable[[Client], Awaitable[None]]) -> None:
    """Run it with a client of an API server that knows the kinds of a provider."""

    async def main() -> None:
        server = new_server()
        await server.start()
        transport = Interleaved()(InProcessTransport(server))
        client = Client(transport, field_manager="eks-a-cli", retry=Retry(attempts=1))
        for name in ("eksa-system", "team-a", "team-b", "team-c"):
            await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        names = {item["kind"] for item in manifest(kind, "any", 0)}
        await install_definitions([kind for kind in EKSA_KINDS if kind.resource.kind in names], client)
        await act(client)

    asyncio.run(main())


async def created(client: Client, folder: Path, name: str, number: int = 1) -> None:
    """A cluster with this number, whose credentials a command has written."""
    trees = manifest(VSPHERE, name, number)
    await bring_credentials(PROVIDERS, client, trees, variables(VSPHERE, folder, "old"))
    await apply(client, trees)


async def delete(client: Client, name: str, namespace: str = "team-a") -> list[str]:
    """Delete a cluster as a command does. Returns what was done with its permissions."""
    deleted = await credential_secrets.granted(PROVIDERS, client, Key(namespace, name))
    await client.delete(Cluster.resource, name, namespace)
    return await credential_secrets.release(PROVIDERS, client, deleted)


async def permitted(client: Client) -> dict[str, tuple[str, str]]:
    """Servers and namespaces of each Secret."""
    secrets = (await client.list(SECRET, "eksa-system")).items
    return {item.name: tuple(item.metadata.annotations[name] for name in (SERVERS, NAMESPACES)) for item in secrets}  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS)
def test_servers_of_deleted_clusters_block_no_password(kind: str, tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        for number, namespace in ((1, "team-a"), (2, "team-b")):
            trees = manifest(kind, f"rot{number}", number, namespace)
            await bring_credentials(PROVIDERS, client, trees, variables(kind, tmp_path, "old"))
            await apply(client, trees)
        before = await permitted(client)
        assert "registry-credentials" in before
        assert len(before) >= 1 + (kind in SERVER_TEXTS)
        with pytest.raises(Failure, match=r"192\.0\.2\.201\S*, which cluster team-a/rot1 uses"):
            await bring_credentials(PROVIDERS, client, trees, variables(kind, tmp_path, "new"))
        assert await permitted(client) == before

        await client.delete(Cluster.resource, "rot1", "team-a")
        messages = await bring_credentials(PROVIDERS, client, trees, variables(kind, tmp_path, "new"))
        assert "namespace team-a, which no cluster uses" in messages
        for servers, namespaces in (await permitted(client)).values():
            assert at(1) not in servers
            assert at(2) in servers
            assert namespaces == "team-b"

    story(kind, act)


@pytest.mark.parametrize("kind", KINDS)
def test_no_entry_of_clusters_created_at_once_is_lost(kind: str, tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        given = variables(kind, tmp_path, "old")
        trees = [manifest(kind, f"at-once-{number}", number, f"team-{number}") for number in range(1, 7)]
        await asyncio.gather(*(bring_credentials(PROVIDERS, client, tree, given) for tree in trees))
        for servers, namespaces in (await permitted(client)).values():
            assert all(at(number) in servers for number in range(1, 7))
            assert namespaces == ",".join(f"team-{number}" for number in range(1, 7))

    story(kind, act)


@pytest.mark.parametrize("kind", KINDS)
def test_deleted_cluster_takes_its_permissions_with_it(kind: str, tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        given = variables(kind, tmp_path, "old")
        for number, namespace in ((1, "team-a"), (2, "team-c"), (2, "team-b")):
            trees = manifest(kind, f"c{number}-{namespace}", number, namespace)
            await bring_credentials(PROVIDERS, client, trees, given)
            await apply(client, trees)

        assert all("namespace team-a" in item for item in await delete(client, "c1-team-a"))
        last = "is no longer for namespace team-c, which no cluster uses"
        assert all(last in item for item in await delete(client, "c2-team-c", "team-c"))
        for servers, namespaces in (await permitted(client)).values():
            assert at(1) not in servers
            assert at(2) in servers
            assert namespaces == "team-b"

    story(kind, act)


def test_permissions_that_somebody_wrote_by_hand_stay(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        trees = manifest(VSPHERE, "by-hand", 1)
        await SAMPLES[VSPHERE].bring(client, "team-a", "team-b")
        await apply(client, trees)
        before = await permitted(client)
        assert await delete(client, "by-hand") == []
        assert await permitted(client) == before

    story(VSPHERE, act)


def test_permissions_applied_by_others_stay(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await created(client, tmp_path, "garden")
        before = await permitted(client)
        for name, (servers, namespaces) in before.items():
            annotations = {SERVERS: servers, NAMESPACES: namespaces}
            metadata = {"name": name, "namespace": "eksa-system", "annotations": annotations}
            body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
            await client.apply(SECRET, body, field_manager="kubectl")
        assert await delete(client, "garden") == []
        assert await permitted(client) == before

    story(VSPHERE, act)


def test_permission_stays_while_a_cluster_may_need_it(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await created(client, tmp_path, "garden")
        await apply(client, [item for item in manifest(VSPHERE, "other", 2) if item["kind"] != VSPHERE])
        before = await permitted(client)
        assert await delete(client, "garden") == []
        assert await permitted(client) == before

    story(VSPHERE, act)


@pytest.mark.parametrize("is_permitted", [True, False])
def test_cluster_created_in_deletion_keeps_permission(is_permitted: bool, tmp_path: Path) -> None:
    """`is_permitted`: it found its server permitted, and wrote no Secret; else it wrote a server of its own."""

    async def act(client: Client) -> None:
        await created(client, tmp_path, "garden")
        deleted = await credential_secrets.granted(PROVIDERS, client, Key("team-a", "garden"))
        await client.delete(Cluster.resource, "garden", "team-a")

        class Meanwhile(Interceptor):
            is_over = False

            async def request(self, transport: Transport, request: Request) -> Response:
                if request.method == "PATCH" and "/secrets/" in request.path and not self.is_over:
                    self.is_over = True
                    if is_permitted:
                        await apply(client, manifest(VSPHERE, "other", 1))
                    else:
                        await created(client, tmp_path, "other", 2)
                return await transport.request(request)

        slow = Client(Meanwhile()(client.transport), field_manager=client.field_manager)
        await credential_secrets.release(PROVIDERS, slow, deleted)
        for servers, namespaces in (await permitted(client)).values():
            assert at(1 if is_permitted else 2) in servers
            assert is_permitted or at(1) not in servers
            assert namespaces == "team-a"

    story(VSPHERE, act)


def test_incomplete_cluster_may_use_any_server(tmp_path: Path) -> None:
    """Its servers are not known, so none is taken out; the message names it."""

    async def act(client: Client) -> None:
        for number in (1, 2):
            trees = manifest(VSPHERE, f"rot{number}", number)
            await bring_credentials(PROVIDERS, client, trees, variables(VSPHERE, tmp_path, "old"))
            await apply(client, [tree for tree in trees if number == 2 or tree["kind"] != VSPHERE])
        with pytest.raises(Failure, match=r"linked objects of cluster team-a/rot1 are missing.*delete that cluster"):
            await bring_credentials(PROVIDERS, client, trees, variables(VSPHERE, tmp_path, "new"))

    story(VSPHERE, act)


async def withdraw(client: Client, trees: list[Tree], cluster: Key) -> list[str]:
    """The cluster of a manifest leaves a management cluster by a move."""
    moved = credential_secrets.granted_by(PROVIDERS, trees)
    return await credential_secrets.withdraw(PROVIDERS, client, moved)


@pytest.mark.parametrize("kind", KINDS)
def test_credentials_for_a_moved_cluster_alone_go(kind: str, tmp_path: Path) -> None:
    """The manifest that a bootstrap kept tells which: as it was given, or as the Cluster and what it links were."""

    async def act(client: Client) -> None:
        given = variables(kind, tmp_path, "old")
        trees, cluster = manifest(kind, "second", 1), Key("team-a", "second")
        await bring_credentials(PROVIDERS, client, trees, given)
        await apply(client, trees)
        stored = await credential_secrets.stored_manifest(PROVIDERS, client, cluster)
        before = await permitted(client)
        assert await withdraw(client, trees, cluster) == []
        assert await permitted(client) == before
        for tree in trees:
            resource = CATALOG.resource_of(tree["apiVersion"], tree["kind"])
            await client.delete(resource, tree["metadata"]["name"], "team-a")
        assert len(await withdraw(client, stored, cluster)) == len(before)
        assert await permitted(client) == {}
        assert await withdraw(client, stored, cluster) == []

    story(kind, act)


@pytest.mark.parametrize("others", ["another server", "another namespace", "kubectl", "an incomplete cluster"])
def test_credentials_of_others_outlive_a_move(others: str, tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        trees, given = manifest(VSPHERE, "second", 1), variables(VSPHERE, tmp_path, "old")
        await bring_credentials(PROVIDERS, client, trees, given)
        if others == "another server":
            await bring_credentials(PROVIDERS, client, manifest(VSPHERE, "other", 2), given)
        if others == "another namespace":
            await bring_credentials(PROVIDERS, client, manifest(VSPHERE, "other", 1, "team-b"), given)
        if others == "an incomplete cluster":
            await apply(client, [item for item in manifest(VSPHERE, "other", 2) if item["kind"] != VSPHERE])
        for name in await permitted(client) if others == "kubectl" else ():
            body = {"metadata": {"name": name, "namespace": "eksa-system", "labels": {"team": "a"}}}
            await client.apply(SECRET, body, field_manager="kubectl")
        before = await permitted(client)
        assert await withdraw(client, trees, Key("team-a", "second")) == []
        assert await permitted(client) == before

    story(VSPHERE, act)


@pytest.mark.parametrize("operation", [records.CREATE, records.DELETE])
def test_a_bootstrap_forgets_credentials_with_record(operation: str, tmp_path: Path) -> None:
    """As the bootstrap of a management cluster, after its creation and after its deletion."""

    async def act(client: Client) -> None:
        key, trees = Key("team-a", "second"), manifest(VSPHERE, "second", 1)
        await bring_credentials(PROVIDERS, client, trees, variables(VSPHERE, tmp_path, "old"))
        record = records.Record(operation, *key, "v0.26.0", manifest=records.manifest_of(trees))
        await records.write(client, record)

        async def connect() -> Client:
            return client

        async def close() -> None: ...

        client.close = close  # type: ignore[method-assign]  # the story asks it further

        bootstrap = ExistingBootstrap.__new__(ExistingBootstrap)
        bootstrap.connect = connect  # type: ignore[method-assign]
        done = await bootstrap.remove(key)
        assert "Secret eksa-system/vsphere-credentials is deleted: no cluster uses it" in done
        assert (await client.list(SECRET, "eksa-system")).items == []
        assert await records.read(client, key) is None
        assert await bootstrap.remove(key) == []

    story(VSPHERE, act)
