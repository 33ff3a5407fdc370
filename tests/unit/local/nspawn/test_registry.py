import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from espalier.local.nspawn import registry
from espalier.local.nspawn.registry import BLOBS, CanNotMake, Registry, Shelf

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
def shelf(tmp_path: Path, layer: str) -> Shelf:
    manifest = {"mediaType": "application/vnd.docker.distribution.manifest.v2+json", "layers": [{"digest": layer}]}
    digest = put(tmp_path / "newer", json.dumps(manifest).encode())
    return Shelf({NAME: digest}, [tmp_path / "newer", tmp_path / "older"])


@pytest.fixture
async def served(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[aiohttp.ClientSession]:
    monkeypatch.setattr(registry, "PORT", 0)
    serving = Registry(lambda: shelf, "127.0.0.1")
    await serving.start()
    await serving.start()
    assert serving.port is not None
    async with aiohttp.ClientSession(f"http://127.0.0.1:{serving.port}") as session:
        yield session
    await serving.stop()


async def test_an_image_is_pulled_by_the_name_that_a_cluster_uses(
    served: aiohttp.ClientSession, shelf: Shelf, layer: str
) -> None:
    async with served.get("/v2/") as answer:
        assert answer.status == 200
    async with served.get("/v2/kubernetes/kube-proxy/manifests/v1.36.3", params={"ns": "example.org"}) as answer:
        assert answer.headers["Docker-Content-Digest"] == shelf.digest(NAME)
        assert answer.content_type == "application/vnd.docker.distribution.manifest.v2+json"
        manifest = await answer.json(content_type=None)
    async with served.get(f"/v2/kubernetes/kube-proxy/blobs/{manifest['layers'][0]['digest']}") as answer:
        assert await answer.read() == b"what kube-proxy is made of"


async def test_a_manifest_is_also_had_by_its_digest_and_asked_about_without_its_content(
    served: aiohttp.ClientSession, shelf: Shelf
) -> None:
    digest = shelf.digest(NAME)
    async with served.head(f"/v2/kubernetes/kube-proxy/manifests/{digest}") as answer:
        assert (answer.status, answer.headers["Docker-Content-Digest"]) == (200, digest)


@pytest.mark.parametrize(
    "path",
    [
        "/v2/kubernetes/kube-proxy/manifests/v1.30.0?ns=example.org",
        "/v2/kubernetes/kube-proxy/manifests/v1.36.3?ns=other.org",
        "/v2/kubernetes/kube-proxy/blobs/sha256:" + "0" * 64,
        "/v2/kubernetes/kube-proxy/blobs/sha256:..%2f..%2fetc%2fpasswd",
    ],
)
async def test_what_no_base_has_is_refused_in_the_words_of_the_protocol(
    served: aiohttp.ClientSession, path: str
) -> None:
    async with served.get(path) as answer:
        assert answer.status == 404
        problem = (await answer.json())["errors"][0]
    assert problem["code"] in {"MANIFEST_UNKNOWN", "BLOB_UNKNOWN"}
    assert problem["message"].startswith("no base of this machine has")


async def test_nothing_can_be_pushed(served: aiohttp.ClientSession) -> None:
    async with served.post("/v2/kubernetes/kube-proxy/blobs/uploads/") as answer:
        assert answer.status in {404, 405}


class Workshop:
    """Makes one image of one manifest, or can't."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self.asked: list[str] = []

    def digest(self, name: str) -> str | None:
        self.asked.append(name)
        if name == "example.org/upgrader:broken":
            raise CanNotMake("there is no base for nodes of Kubernetes 1.30.1: build one")
        return put(self._store, b"{}") if name == "example.org/upgrader:v1.36.3" else None

    @property
    def stores(self) -> list[Path]:
        return [self._store]


async def test_an_image_that_no_base_has_is_made_when_a_node_asks_for_it(
    tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(tmp_path / "made")
    monkeypatch.setattr(registry, "PORT", 0)
    serving = Registry(lambda: Shelf({NAME: str(shelf.digest(NAME))}, [tmp_path / "newer"], workshop), "127.0.0.1")
    await serving.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{serving.port}") as session:
        async with session.get("/v2/upgrader/manifests/v1.36.3", params={"ns": "example.org"}) as answer:
            assert await answer.read() == b"{}"
        async with session.get("/v2/kubernetes/kube-proxy/manifests/v1.36.3", params={"ns": "example.org"}) as answer:
            assert answer.status == 200
        async with session.get("/v2/upgrader/manifests/broken", params={"ns": "example.org"}) as answer:
            assert answer.status == 404
            problem = (await answer.json())["errors"][0]["message"]
        async with session.get("/v2/upgrader/manifests/other", params={"ns": "example.org"}) as answer:
            assert answer.status == 404
    await serving.stop()
    assert problem == "there is no base for nodes of Kubernetes 1.30.1: build one"
    assert NAME not in workshop.asked, "a base has it"
