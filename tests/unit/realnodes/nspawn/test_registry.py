import hashlib
import json
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from espalier.realnodes.nspawn.system.helper_processes import RegistryProcess
from espalier.realnodes.nspawn.system.registry import BLOBS, ImageBuild, ServedImages
from espalier.realnodes.nspawn.system.state import NetworkRecord, State
from tests.support.sampling import sampled
from tests.support.waiting import eventually, is_listened_to

HOST = "127.0.0.1"
NAME = "example.org/kubernetes/kube-proxy:v1.36.3"


def put(store: Path, content: bytes) -> str:
    hexadecimal = hashlib.sha256(content).hexdigest()
    blob = store / BLOBS / hexadecimal
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    return f"sha256:{hexadecimal}"


@pytest.fixture
def layer(tmp_path: Path) -> str:
    return put(tmp_path / "older", b"what kube-proxy is made of")


@pytest.fixture
def served_images(tmp_path: Path, layer: str) -> ServedImages:
    manifest = {"mediaType": "application/vnd.docker.distribution.manifest.v2+json", "layers": [{"digest": layer}]}
    digest = put(tmp_path / "newer", json.dumps(manifest).encode())
    return ServedImages({NAME: digest}, [tmp_path / "newer", tmp_path / "older"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
async def registry_process(tmp_path: Path) -> AsyncIterator[RegistryProcess]:
    state = State(tmp_path / "nodes")
    state.write_network(NetworkRecord("esp0", "10.77.0.0/24"))
    yield RegistryProcess(state)
    await RegistryProcess(state).end()


@pytest.fixture
async def served(
    served_images: ServedImages, registry_process: RegistryProcess
) -> AsyncIterator[aiohttp.ClientSession]:
    port = free_port()
    await registry_process.offer(served_images, HOST, port)
    await eventually(lambda: is_listened_to(port))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield session


async def test_registry_outlives_its_starter(
    served: aiohttp.ClientSession, registry_process: RegistryProcess, tmp_path: Path, layer: str
) -> None:
    running = registry_process.process
    assert running is not None
    port = json.loads((tmp_path / "nodes" / "registry.conf").read_text())["port"]
    digest = put(tmp_path / "newer", b"{}")
    await RegistryProcess(State(tmp_path / "nodes")).offer(
        ServedImages({"a.org/b:c": digest}, [tmp_path / "newer"]), HOST, port
    )
    assert RegistryProcess(State(tmp_path / "nodes")).process == running
    async with served.get("/v2/b/manifests/c?ns=a.org") as answer:
        assert (answer.status, await answer.read()) == (200, b"{}")


async def test_address_where_somebody_else_listens_is_named(
    served_images: ServedImages, registry_process: RegistryProcess
) -> None:
    port = free_port()
    with (
        socket.create_server((HOST, port)),
        pytest.raises(OSError, match=f"{port}, where the registry of nodes should: stop it"),
    ):
        await registry_process.offer(served_images, HOST, port)
    assert registry_process.process is None


async def test_image_is_pulled_by_name_that_cluster_uses(
    served: aiohttp.ClientSession, served_images: ServedImages, layer: str
) -> None:
    async with served.get("/v2/") as answer:
        assert answer.status == 200
    async with served.get("/v2/kubernetes/kube-proxy/manifests/v1.36.3", params={"ns": "example.org"}) as answer:
        assert answer.headers["Docker-Content-Digest"] == served_images.digest(NAME)
        assert answer.content_type == "application/vnd.docker.distribution.manifest.v2+json"
        manifest = await answer.json(content_type=None)
    async with served.get(f"/v2/kubernetes/kube-proxy/blobs/{manifest['layers'][0]['digest']}") as answer:
        assert await answer.read() == b"what kube-proxy is made of"


async def test_manifest_is_served_by_its_digest(served: aiohttp.ClientSession, served_images: ServedImages) -> None:
    digest = served_images.digest(NAME)
    async with served.head(f"/v2/kubernetes/kube-proxy/manifests/{digest}") as answer:
        assert (answer.status, answer.headers["Docker-Content-Digest"]) == (200, digest)


@pytest.mark.parametrize(
    "path",
    sampled(
        [
            "/v2/kubernetes/kube-proxy/manifests/v1.30.0?ns=example.org",
            "/v2/kubernetes/kube-proxy/manifests/v1.36.3?ns=other.org",
            "/v2/kubernetes/kube-proxy/blobs/sha256:" + "0" * 64,
            "/v2/kubernetes/kube-proxy/blobs/sha256:..%2f..%2fetc%2fpasswd",
        ],
        0,
    ),
)
async def test_unknown_image_is_refused_by_protocol(served: aiohttp.ClientSession, path: str) -> None:
    async with served.get(path) as answer:
        assert answer.status == 404
        problem = (await answer.json())["errors"][0]
    assert problem["code"] in {"MANIFEST_UNKNOWN", "BLOB_UNKNOWN"}
    assert problem["message"].startswith("no base of this machine has")


async def test_nothing_can_be_pushed(served: aiohttp.ClientSession) -> None:
    async with served.post("/v2/kubernetes/kube-proxy/blobs/uploads/") as answer:
        assert answer.status == 501


async def test_image_outside_of_bases_is_built_once(
    registry_process: RegistryProcess, served_images: ServedImages, tmp_path: Path
) -> None:
    folder, asked = tmp_path / "made", tmp_path / "asked"
    content = b'{"layers": []}'
    hexadecimal = hashlib.sha256(content).hexdigest()
    program = (
        f"import pathlib, sys; open({str(asked)!r}, 'a').write('once '); folder = pathlib.Path({str(folder)!r})\n"
        f"(folder / {BLOBS!r}).mkdir(parents=True); (folder / {BLOBS!r} / {hexadecimal!r}).write_bytes({content!r})\n"
        f"(folder / 'digest').write_text('sha256:{hexadecimal}')"
    )
    why = "there is no base for nodes of Kubernetes 1.30.1: build one"
    built_images = {
        "example.org/upgrader:1": ImageBuild(folder, (sys.executable, "-c", program)),
        "example.org/upgrader:2": ImageBuild(
            tmp_path / "never", (sys.executable, "-c", f"import sys; sys.exit({why!r})")
        ),
    }
    port = free_port()
    await registry_process.offer(ServedImages({}, [], built_images), HOST, port)
    await eventually(lambda: is_listened_to(port))
    async with aiohttp.ClientSession(f"http://{HOST}:{port}") as session:
        for _ in range(2):
            async with session.get("/v2/upgrader/manifests/1?ns=example.org") as answer:
                assert (answer.status, await answer.read()) == (200, content)
        async with session.get("/v2/upgrader/manifests/2?ns=example.org") as answer:
            assert answer.status == 404
            assert (await answer.json())["errors"][0]["message"].endswith(f"can't be created: {why}")
    assert asked.read_text() == "once "
