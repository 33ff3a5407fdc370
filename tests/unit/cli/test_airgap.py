"""Images of a release: downloaded by digest, imported into a registry, checked there; whatever ends in the middle."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web

from espalier.api.eksa.parts.network import OCINamespace, RegistryMirrorConfiguration
from espalier.cli.clusters import images as commands
from espalier.cli.clusters.airgap import copying, wanted
from espalier.cli.clusters.airgap.copying import Copied
from espalier.cli.clusters.airgap.layout import NAME, ImageLayout
from espalier.cli.clusters.airgap.registries import (
    DEEPEST,
    LOST,
    Account,
    Blob,
    HttpRegistry,
    Manifest,
    RegistryError,
)
from espalier.cli.clusters.airgap.wanted import Mirror, Reference, WantedImage
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing.progress import Progress
from espalier.releases import Releases, UnknownKubernetesVersion
from tests.support.environments.environment import CommandResult, LocalEnvironment
from tests.support.servers.https_server import serving_context
from tests.support.servers.oci_registry import INDEX, MANIFEST, OciRegistry, digest_of
from tests.support.servers.web_server import web_server

SOURCE = "public.ecr.aws"
NAMES = ("eks-anywhere/a", "eks-anywhere/deep/b", "c")


class Site:
    """A registry of the internet, a mirror, and a folder between them. Pauses are counted, not waited for."""

    def __init__(self, folder: Path, session: aiohttp.ClientSession) -> None:
        self.source, self.mirror = OciRegistry(), OciRegistry()
        self.layout, self.session = ImageLayout(folder / "images"), session
        self.digests = {name: self.source.add_image(name, "v1") for name in NAMES}
        self.pauses: list[float] = []
        self.account: Account | None = None

    def registry(self, host: str) -> HttpRegistry:
        async def pause(seconds: float) -> None:
            self.pauses.append(seconds)

        return HttpRegistry(self.session, host, account=self.account, is_plain=True, sleep=pause)

    def wanted(self, **digests: str) -> list[WantedImage]:
        return [
            WantedImage(Reference(SOURCE, name, "v1"), ("1.35 x",), frozenset(filter(None, [digests.get(name[-1])])))
            for name in NAMES
        ]

    async def download(self, images: Sequence[WantedImage] | None = None) -> Copied:
        through = Mirror.at(self.source.host)
        return await copying.download(images or self.wanted(), self.layout, self.registry, through, lambda _text: None)

    async def upload(self, names: Sequence[str] | None = None, path: str = "mirror") -> Copied:
        mirror = Mirror.at(f"{self.mirror.host}/{path}")
        names = names or [str(image.reference) for image in self.wanted()]
        return await copying.upload(self.layout, names, self.registry(mirror.host), mirror, lambda _text: None)

    async def check(self, images: Sequence[WantedImage] | None = None, *, with_folder: bool = False) -> Copied:
        mirror = Mirror.at(f"{self.mirror.host}/mirror")
        layout = self.layout if with_folder else None
        return await copying.check(images or self.wanted(), self.registry, mirror, layout, lambda _text: None)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with aiohttp.ClientSession() as session:
        made = Site(tmp_path, session)
        async with made.source.serving(), made.mirror.serving():
            yield made


async def test_images_get_from_a_registry_into_a_mirror(site: Site) -> None:
    downloaded = await site.download()
    assert (len(downloaded.done), downloaded.failed) == (3, {})
    uploaded = await site.upload()
    assert (len(uploaded.done), uploaded.failed) == (3, {})
    checked = await site.check(with_folder=True)
    assert (len(checked.done), checked.failed) == (3, {})
    for name in NAMES:
        assert site.mirror.manifests[f"mirror/{name}", "v1"] == site.source.manifests[name, "v1"]
    assert {digest for _, digest in site.mirror.blobs} == {digest for _, digest in site.source.blobs}


async def test_what_is_there_is_not_sent_again(site: Site) -> None:
    await site.download()
    sent, before = site.source.sent, site.source.requests.copy()
    again = await site.download()
    assert (len(again.present), site.source.sent, site.source.requests) == (3, sent, before)
    await site.upload()
    before = site.mirror.requests.copy()
    again = await site.upload()
    assert len(again.present) == 3
    assert site.mirror.requests - before == {"HEAD manifests": 3}


async def test_a_download_goes_on_where_it_broke(site: Site) -> None:
    (image, *_) = site.wanted()
    site.source.cut_after = 5000
    total = sum(len(content) for (name, _), content in site.source.blobs.items() if name == image.reference.repository)
    copied = await site.download([image])
    assert copied.failed == {}
    assert site.source.sent == total
    assert site.pauses


async def test_an_interrupted_command_goes_on(site: Site) -> None:
    (image, *_) = site.wanted()
    site.source.cut_after, site.source.failing = 100, {}
    failed = await site.download([image])
    assert "5 attempts" in failed.failed[str(image.reference)]
    assert site.layout.names() == {}
    sent, site.source.cut_after = site.source.sent, None
    copied = await site.download([image])
    total = sum(len(content) for (name, _), content in site.source.blobs.items() if name == image.reference.repository)
    assert (copied.failed, site.source.sent) == ({}, total)
    assert sent


async def test_changed_content_is_refused(site: Site) -> None:
    site.source.corrupt = True
    copied = await site.download(site.wanted()[:1])
    (reason,) = copied.failed.values()
    assert "it was changed on its way" in reason
    assert site.layout.names() == {}
    assert not list((site.layout.folder / "blobs" / "sha256").glob(".*"))


async def test_another_digest_than_the_release_states(site: Site) -> None:
    stated = {"a": site.digests["eks-anywhere/a"], "c": f"sha256:{'0' * 64}"}
    copied = await site.download(site.wanted(**stated))
    assert list(copied.failed) == [f"{SOURCE}/c:v1"]
    assert "found digest sha256:" in copied.failed[f"{SOURCE}/c:v1"]
    await site.upload(list(site.layout.names()))
    checked = await site.check(site.wanted(**stated))
    assert list(checked.failed) == [f"{SOURCE}/c:v1"]


async def test_half_of_the_images_is_told(site: Site) -> None:
    del site.source.manifests["eks-anywhere/deep/b", "v1"]
    copied = await site.download()
    assert (len(copied.done), list(copied.failed)) == (2, [f"{SOURCE}/eks-anywhere/deep/b:v1"])
    (reason,) = copied.failed.values()
    assert reason == f"{site.source.host}/eks-anywhere/deep/b: 404 MANIFEST_UNKNOWN manifest unknown"
    uploaded = await site.upload()
    assert uploaded.failed[f"{SOURCE}/eks-anywhere/deep/b:v1"].startswith("not in ")
    checked = await site.check()
    assert checked.failed == {
        f"{SOURCE}/eks-anywhere/deep/b:v1": f"{site.mirror.host}/mirror/eks-anywhere/deep/b:v1: missing"
    }


async def test_no_tag_is_written_before_its_content(site: Site) -> None:
    await site.download()
    blob = next(digest for repository, digest in site.source.blobs if repository == "c")
    site.layout.path(blob).write_bytes(b"damaged")
    uploaded = await site.upload()
    assert "is missing or damaged" in uploaded.failed[f"{SOURCE}/c:v1"]
    assert ("mirror/c", "v1") not in site.mirror.manifests


async def test_same_size_damage_is_seen_before_it_is_sent(site: Site) -> None:
    await site.download()
    blob = next(digest for repository, digest in site.source.blobs if repository == "c")
    size = site.layout.path(blob).stat().st_size
    site.layout.path(blob).write_bytes(bytes(size))
    uploaded = await site.upload()
    assert "is missing or damaged" in uploaded.failed[f"{SOURCE}/c:v1"]


async def test_a_lost_blob_is_downloaded_again(site: Site) -> None:
    await site.download()
    blob = next(digest for repository, digest in site.source.blobs if repository == "c")
    site.layout.path(blob).unlink()
    again = await site.download()
    assert again.done == [f"{SOURCE}/c:v1"]
    assert site.layout.path(blob).exists()


@pytest.mark.parametrize("key", ["GET /v2/c/manifests", "PUT /v2/mirror/c/manifests", "POST", "HEAD"])
async def test_a_busy_registry_is_asked_again(site: Site, key: str) -> None:
    site.source.failing, site.mirror.failing = {key: 2}, {key: 2}
    assert (await site.download()).failed == {}
    assert (await site.upload()).failed == {}
    assert site.pauses[0] == 3.0


async def test_a_registry_that_stays_busy_is_named(site: Site) -> None:
    site.source.failing = {"GET /v2/c/": 99}
    copied = await site.download()
    assert f"{site.source.host}/c: 503" in copied.failed[f"{SOURCE}/c:v1"]
    assert len(copied.done) == 2


async def test_an_account_is_used_for_a_token(site: Site) -> None:
    await site.download()
    site.mirror.authorization = Account("me", "secret").basic
    refused = await site.upload()
    assert all("refuses no account (401)" in reason for reason in refused.failed.values())
    assert all("set REGISTRY_USERNAME and REGISTRY_PASSWORD" in reason for reason in refused.failed.values())
    site.account = Account("me", "wrong")
    refused = await site.upload()
    assert all("refuses account me (401)" in reason for reason in refused.failed.values())
    assert all("correct REGISTRY_USERNAME and REGISTRY_PASSWORD" in reason for reason in refused.failed.values())
    assert "wrong" not in str(refused.failed)
    site.account = Account("me", "secret")
    assert (await site.upload()).failed == {}
    assert (await site.check()).failed == {}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, r"401 .*account me\): correct REGISTRY_USERNAME and REGISTRY_PASSWORD"),
        (403, r"403 .*account me\): give the account the right to read there, or use another one"),
    ],
)
async def test_a_refused_account_is_told_what_to_do(site: Site, status: int, words: str) -> None:
    async def refused(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"WWW-Authenticate": "Basic realm=x"})

    site.account = Account("me", "secret")
    async with web_server(refused) as port:
        with pytest.raises(RegistryError, match=words):
            await site.registry(f"127.0.0.1:{port}").manifest("c", "v1")


async def test_a_manifest_of_another_digest_is_refused(site: Site) -> None:
    index = json.loads(site.source.manifests["c", "v1"][0])
    digest = index["manifests"][0]["digest"]
    content, type_ = site.source.manifests["c", digest]
    site.source.manifests["c", digest] = (content + b" ", type_)
    copied = await site.download()
    assert f"asked for {digest}, got content of sha256:" in copied.failed[f"{SOURCE}/c:v1"]


@pytest.mark.parametrize("tree", [[1, 2], {"manifests": [None]}, {"manifests": None}, {"manifests": [{"size": 1}]}, 5])
async def test_document_of_no_image_is_named(site: Site, tree: object) -> None:
    with_index(site.source, "c", tree)
    copied = await site.download()
    (reason,) = copied.failed.values()
    assert re.search(r"can't be read: found .*, allowed (is|are) ", reason)
    (site.layout.folder / "index.json").write_text(json.dumps(tree))
    with pytest.raises(Failure, match=r"can't be read \(found .*, allowed (is|are) "):
        site.layout.names()


@pytest.mark.parametrize(
    ("place", "words"),
    [("", "redirects in a circle"), ("mailto:x", "redirects to mailto:x, which is no"), ("http://[x", "redirects to")],
)
async def test_redirect_to_nowhere_is_named_at_once(site: Site, place: str, words: str) -> None:
    async def moved(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": place or request.path})

    async with web_server(moved) as port:
        registry = site.registry(f"127.0.0.1:{port}")
        with pytest.raises(RegistryError, match=rf"^127\.0\.0\.1:{port}: {words}"):
            await registry.manifest("c", "v1")
    assert not site.pauses


@pytest.mark.parametrize(
    ("is_plain", "answer", "words"),
    [
        (
            True,
            b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\nhttp to https",
            "leave out --ins",
        ),
        (True, b"\x15\x03\x01\x00\x02\x02\x46", "it may serve TLS, so leave out --insecure"),
        (False, b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not serve TLS .*by --insecure"),
    ],
)
async def test_wrong_protocol_is_named(site: Site, is_plain: bool, answer: bytes, words: str) -> None:
    async def answered(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(answered, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        registry = HttpRegistry(site.session, host, is_plain=is_plain, sleep=site.registry("x")._sleep)
        with pytest.raises(RegistryError, match=words):
            await registry.manifest("c", "v1")
    assert is_plain or not site.pauses, "it would be the same again"


async def test_untrusted_certificate_is_named_at_once(site: Site) -> None:
    async with web_server(site.source._answer, serving_context()) as port:
        registry = HttpRegistry(site.session, f"127.0.0.1:{port}", sleep=site.registry("x")._sleep)
        with pytest.raises(RegistryError, match=r"its certificate is not trusted .* --ca-file"):
            await registry.manifest("c", "v1")
    assert not site.pauses


def with_index(registry: OciRegistry, repository: str, tree: object) -> str:
    """Give tag v1 of a repository another index; returns its digest."""
    content = json.dumps(tree).encode()
    registry.manifests[repository, "v1"] = registry.manifests[repository, digest_of(content)] = (content, INDEX)
    return digest_of(content)


async def test_wrong_size_of_a_manifest_is_refused(site: Site) -> None:
    tree = json.loads(site.source.manifests["c", "v1"][0])
    right = tree["manifests"][0]["size"]
    tree["manifests"][0]["size"] = 99999999999572
    with_index(site.source, "c", tree)
    copied = await site.download()
    assert f"has {right} bytes, not 99999999999572 as its index says" in copied.failed[f"{SOURCE}/c:v1"]
    assert f"{SOURCE}/c:v1" not in site.layout.names()
    for key, content in list(site.source.manifests.items()):
        site.mirror.manifests[f"mirror/{key[0]}", key[1]] = content
    checked = await site.check()
    assert list(checked.failed) == [f"{SOURCE}/c:v1"]
    assert f"has {right} bytes" in checked.failed[f"{SOURCE}/c:v1"]


async def test_mirror_of_one_platform_is_good(site: Site) -> None:
    await site.download()
    await site.upload()
    part = json.loads(site.source.manifests["c", "v1"][0])["manifests"][0]["digest"]
    del site.mirror.manifests["mirror/c", part]
    assert (await site.check()).failed == {}


async def test_mirror_without_a_platform_is_refused(site: Site) -> None:
    """It has the index, and nothing that a node could run."""
    await site.download()
    await site.upload()
    for part in json.loads(site.source.manifests["c", "v1"][0])["manifests"]:
        del site.mirror.manifests["mirror/c", part["digest"]]
    checked = await site.check()
    assert list(checked.failed) == [f"{SOURCE}/c:v1"]
    assert "has no platform of index sha256:" in checked.failed[f"{SOURCE}/c:v1"]


async def test_wrong_size_of_a_blob_is_refused(site: Site) -> None:
    index = json.loads(site.source.manifests["c", "v1"][0])
    manifest = json.loads(site.source.manifests["c", index["manifests"][0]["digest"]][0])
    right = manifest["layers"][0]["size"]
    manifest["layers"][0]["size"] = right + 7
    content = json.dumps(manifest).encode()
    site.source.manifests["c", digest_of(content)] = (content, MANIFEST)
    index["manifests"][0] |= {"digest": digest_of(content), "size": len(content)}
    with_index(site.source, "c", index)
    for _ in range(2):
        copied = await site.download()
        assert f"has {right} bytes, not {right + 7} as its manifest says" in copied.failed[f"{SOURCE}/c:v1"]
    assert not site.pauses


@pytest.mark.parametrize("place", ["folder", "part"])
async def test_wrong_size_in_a_folder_is_refused(site: Site, place: str) -> None:
    await site.download()
    file = site.layout.folder / "index.json"
    tree = json.loads(file.read_text())
    entry = next(entry for entry in tree["manifests"] if entry["annotations"][NAME] == f"{SOURCE}/c:v1")
    if place == "folder":
        entry["size"] += 1
    else:
        index = json.loads(site.layout.path(entry["digest"]).read_bytes())
        index["manifests"][0]["size"] += 1
        content = json.dumps(index).encode()
        site.layout.path(digest_of(content)).write_bytes(content)
        entry |= {"digest": digest_of(content), "size": len(content)}
    file.write_text(json.dumps(tree))
    uploaded = await site.upload()
    assert list(uploaded.failed) == [f"{SOURCE}/c:v1"]
    assert "bytes, not" in uploaded.failed[f"{SOURCE}/c:v1"]
    assert ("mirror/c", "v1") not in site.mirror.manifests
    assert (await site.download()).failed == {}
    assert (await site.upload()).failed == {}


async def test_an_index_without_platforms_is_refused(site: Site) -> None:
    await site.download()
    digest = with_index(site.source, "c", {"schemaVersion": 2, "manifests": []})
    content = site.source.manifests["c", "v1"][0]
    copied = await site.download(site.wanted(c=digest))
    assert "no platform in it" in copied.failed[f"{SOURCE}/c:v1"]
    with_index(site.mirror, "mirror/c", {"schemaVersion": 2, "manifests": []})
    checked = await site.check(site.wanted()[2:])
    assert "no platform in it" in checked.failed[f"{SOURCE}/c:v1"]
    site.layout.path(digest).write_bytes(content)
    annotations = {NAME: f"{SOURCE}/c:v1"}
    entry = {"mediaType": INDEX, "digest": digest, "size": len(content), "annotations": annotations}
    (site.layout.folder / "index.json").write_text(json.dumps({"manifests": [entry]}))
    uploaded = await site.upload([f"{SOURCE}/c:v1"])
    assert "no platform in it" in uploaded.failed[f"{SOURCE}/c:v1"]


def with_nested(registry: OciRegistry, repository: str, levels: int, width: int = 1) -> None:
    """Put the image of tag v1 below further indexes, each of which names the next one some times."""
    for _ in range(levels):
        content, media_type = registry.manifests[repository, "v1"]
        entry = {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}
        with_index(registry, repository, {"schemaVersion": 2, "manifests": [entry] * width})


async def test_deeply_nested_index_is_refused(site: Site) -> None:
    with_nested(site.source, "c", DEEPEST)
    copied = await site.download()
    assert f"is below more than {DEEPEST} indexes" in copied.failed[f"{SOURCE}/c:v1"]
    for key, content in site.source.manifests.items():
        site.mirror.manifests[f"mirror/{key[0]}", key[1]] = content
        site.layout.path(digest_of(content[0])).write_bytes(content[0])
    assert f"is below more than {DEEPEST} indexes" in (await site.check()).failed[f"{SOURCE}/c:v1"]
    site.layout.enter(f"{SOURCE}/c:v1", Manifest(*site.source.manifests["c", "v1"]))
    uploaded = await site.upload()
    assert f"is below more than {DEEPEST} indexes" in uploaded.failed[f"{SOURCE}/c:v1"]


async def test_index_that_is_named_often_is_read_once(site: Site) -> None:
    with_nested(site.source, "c", DEEPEST - 1, width=2)
    for copied in (await site.download(), await site.upload(), await site.check(with_folder=True)):
        assert (len(copied.done), copied.failed) == (3, {})
    assert site.source.requests["GET manifests"] <= DEEPEST + 3 * len(NAMES)


async def test_a_registry_without_ranges_sends_all_again(site: Site) -> None:
    site.source.has_ranges, site.source.cut_after = False, 100
    (image, *_) = site.wanted()
    assert (await site.download([image])).failed
    assert list((site.layout.folder / "blobs" / "sha256").glob(".*.partial"))
    site.source.cut_after = None
    assert (await site.download([image])).failed == {}


async def test_another_image_in_the_mirror_is_found(site: Site) -> None:
    await site.download()
    await site.upload()
    site.mirror.add_image("mirror/c", "v1", layers=1)
    checked = await site.check(with_folder=True)
    assert list(checked.failed) == [f"{SOURCE}/c:v1"]
    assert "allowed is" in checked.failed[f"{SOURCE}/c:v1"]


async def test_an_account_is_sent_to_nobody_else(site: Site) -> None:
    """Registries have uploads go to storage of others."""
    await site.download(site.wanted()[:1])
    site.mirror.authorization, site.account = Account("me", "secret").basic, Account("me", "secret")
    other = OciRegistry()
    async with other.serving() as host:
        site.mirror.uploads_at = f"http://{host}"
        await site.upload([str(site.wanted()[0].reference)])
    assert other.accounts == {""}


async def test_a_closed_port_is_named(site: Site) -> None:
    registry = site.registry("127.0.0.1:1")
    with pytest.raises(RegistryError, match=r"^127.0.0.1:1: Connection refused \(5 attempts\)$"):
        await registry.manifest("c", "v1")
    pauses = len(site.pauses)
    with pytest.raises(RegistryError, match="1 attempt"):
        await registry.manifest("c", "v1")
    assert len(site.pauses) == pauses


async def test_a_registry_that_fails_is_given_up(site: Site) -> None:
    site.source.failing = {"GET": 10_000}
    registry = site.registry(site.source.host)
    for _ in range(LOST):
        with pytest.raises(RegistryError, match=r"503.* \(5 attempts\)$"):
            await registry.manifest("c", "v1")
    asked = site.source.requests.total()
    with pytest.raises(RegistryError, match=f"{site.source.host} is not asked any more: 3 requests in a row failed"):
        await registry.manifest("c", "v1")
    assert site.source.requests.total() == asked


async def test_an_answer_ends_a_row_of_failures(site: Site) -> None:
    registry = site.registry(site.source.host)
    for _ in range(LOST):
        site.source.failing = {"GET": 5}
        with pytest.raises(RegistryError, match="5 attempts"):
            await registry.manifest("c", "v1")
        await registry.manifest("c", "v1")


async def test_a_refusal_ends_a_row_of_failures(site: Site) -> None:
    """It is an answer, too."""
    registry = site.registry(site.source.host)
    for _ in range(LOST):
        site.source.failing = {"GET": 5}
        with pytest.raises(RegistryError, match="5 attempts"):
            await registry.manifest("c", "v1")
        with pytest.raises(RegistryError, match="404"):
            await registry.manifest("absent", "v1")


async def test_a_silent_registry_is_told_of_early(site: Site) -> None:
    told: list[str] = []
    silences = 0

    async def silent(_: web.Request) -> web.StreamResponse:
        nonlocal silences
        silences += 1
        await asyncio.sleep(3600)
        raise AssertionError

    async with web_server(silent) as port:
        timeout = aiohttp.ClientTimeout(total=None, sock_read=0.3)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            host = f"127.0.0.1:{port}"
            sleep = site.registry("x")._sleep
            registry = HttpRegistry(session, host, is_plain=True, sleep=sleep, tell=told.append, patience=0)
            with pytest.raises(RegistryError, match=r"no byte within 60 s \(2 attempts\)$"):
                await registry.manifest("c", "v1")
    waiting = f"{host} has not answered for 0 s; it has 60 s"
    assert told == [waiting, f"{host}: no byte within 60 s; attempt 2 of 2 in 1 s", waiting]
    assert silences == 2


def told(capsys: pytest.CaptureFixture[str], copied: Copied, advice: commands.Advice = commands.ON) -> list[str]:
    """The lines that are printed of these results, and at last the failure."""
    with Progress() as progress, pytest.raises(Failure) as failure:
        commands._tell(progress, copied, "in images", advice=advice)
    return [*(line.removeprefix("✗ ") for line in capsys.readouterr().err.splitlines()), str(failure.value)]


def test_failures_of_one_cause_are_told_together(capsys: pytest.CaptureFixture[str]) -> None:
    failed = {
        "r.io/eks/a:v1": "mirror:5000/m/eks/a: 503 busy (5 attempts)",
        "r.io/eks/a/b:v1": "mirror:5000/m/eks/a/b: 503 busy (1 attempt)",
        "r.io/c:v1": "mirror:5000/c: 404 missing",
    }
    assert told(capsys, Copied(failed=failed)) == [
        "r.io/c:v1: mirror:5000/c: 404 missing",
        "mirror:5000: 503 busy: 2 images:",
        "  r.io/eks/a/b:v1",
        "  r.io/eks/a:v1",
        "3 of 3 images failed; the same command goes on with them",
    ]


def test_missing_images_are_told_by_their_registry(capsys: pytest.CaptureFixture[str]) -> None:
    failed = {name: f"mirror:5000/m/{name[5:]}: missing" for name in ("r.io/a:v1", "r.io/b:v1", "r.io/b@sha256:1")}
    assert told(capsys, Copied(done=["r.io/c:v1"], failed=failed))[:4] == [
        "mirror:5000: missing: 3 images:",
        "  r.io/a:v1",
        "  r.io/b:v1",
        "  r.io/b@sha256:1",
    ]


def test_all_missing_images_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """However many: whoever looks for them has no other list."""
    names = [f"public.ecr.aws/eks-distro/kubernetes/some-component-{number:03}:v1" for number in range(100)]
    failed = {name: f"mirror:5000/{name.partition('/')[2]}: missing" for name in names}
    lines = told(capsys, Copied(done=["r.io/c:v1"], failed=failed))
    assert lines[1:101] == [f"  {name}" for name in names]


def test_a_cause_of_all_images_names_none_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    failed = {f"r.io/{name}:v1": f"m:1/{name}: 401 Unauthorized" for name in ("a", "b", "c")}
    assert told(capsys, Copied(failed=failed))[0] == "m:1: 401 Unauthorized: all 3 images"


def test_images_that_were_not_asked_for_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    away = "m:1 is not asked any more: 3 requests in a row failed in all attempts"
    failed = {"r.io/a:v1": "m:1: Connection refused (5 attempts)", "r.io/b:v1": away, "r.io/c:v1": away}
    copied = Copied(failed=failed, unanswered=set(failed), unasked={"r.io/b:v1", "r.io/c:v1"})
    assert told(capsys, copied, commands.CHECKED) == [
        "r.io/a:v1: m:1: Connection refused (5 attempts)",
        f"{away}: 2 images",
        "3 of 3 images failed; give the same command again once their registry answers",
    ]


async def test_check_of_a_lost_registry_asks_for_no_import(site: Site) -> None:
    mirror = Mirror.at("127.0.0.1:1")
    copied = await copying.check(site.wanted(), site.registry, mirror, None, lambda _text: None)
    assert copied.unanswered == set(copied.failed) == {str(image.reference) for image in site.wanted()}


async def test_a_folder_of_others_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Failure, match=r"-o: found .* which has other files"):
        ImageLayout(tmp_path).create()
    with pytest.raises(Failure, match=r"-i: found .* which has no images"):
        ImageLayout(tmp_path).check()


async def test_an_index_that_cannot_be_read_is_named(site: Site) -> None:
    await site.download()
    (site.layout.folder / "index.json").write_text("{")
    with pytest.raises(Failure, match=r"index\.json: it can't be read"):
        site.layout.names()


async def test_a_bad_index_ends_a_download_in_words(site: Site) -> None:
    await site.download()
    (site.layout.folder / "index.json").write_text("{")
    with pytest.raises(Failure, match=r"index\.json: it can't be read"):
        await site.download()


async def test_a_file_that_cannot_be_read_is_named(site: Site) -> None:
    site.layout.create()
    (site.layout.folder / "index.json").mkdir()
    with pytest.raises(IsADirectoryError, match=r"index\.json"):
        await site.download()


async def test_a_damaged_manifest_is_downloaded_again(site: Site) -> None:
    await site.download()
    manifest = json.loads(site.source.manifests["c", "v1"][0])["manifests"][0]["digest"]
    site.layout.path(manifest).write_bytes(b"")
    again = await site.download()
    assert (again.done, again.failed) == ([f"{SOURCE}/c:v1"], {})
    assert (await site.upload()).failed == {}


async def test_a_tag_that_moves_meanwhile_is_harmless(site: Site) -> None:
    """The index gets the manifest that was downloaded and compared with the release."""
    (*_, image) = site.wanted(c=site.digests["c"])
    moved = site.source.add_image("c", "v2")
    site.source.manifests["c", "v1"], after = site.source.manifests["c", site.digests["c"]], "GET blobs"

    class Moving(HttpRegistry):
        async def download(self, repository: str, blob: Blob, to: Path) -> None:
            site.source.manifests["c", "v1"] = site.source.manifests["c", moved]
            await super().download(repository, blob, to)

    registry = Moving(site.session, site.source.host, is_plain=True)
    through = Mirror.at(site.source.host)
    copied = await copying.download([image], site.layout, lambda _host: registry, through, lambda _text: None)
    assert (copied.failed, site.source.requests[after] > 0) == ({}, True)
    assert site.layout.names()[f"{SOURCE}/c:v1"].digest == site.digests["c"]


async def test_a_folder_has_one_writer(site: Site) -> None:
    site.layout.create()
    with site.layout.writing(), pytest.raises(Failure, match="is being written by another command"):
        await site.download()
    assert (await site.download()).failed == {}


async def test_a_mirror_must_have_what_the_folder_has(site: Site) -> None:
    """Also where the release states another digest."""
    await site.download()
    await site.upload()
    other = site.mirror.add_image("mirror/c", "v1", layers=1)
    checked = await site.check(site.wanted(c=other), with_folder=True)
    assert list(checked.failed) == [f"{SOURCE}/c:v1"]


async def test_a_check_names_what_the_folder_lacks(site: Site) -> None:
    await site.download(site.wanted()[:2])
    site.mirror.add_image("mirror/c", "v1")
    await site.upload([str(image.reference) for image in site.wanted()[:2]])
    checked = await site.check(with_folder=True)
    assert "not in " in checked.failed[f"{SOURCE}/c:v1"]


@pytest.mark.parametrize("token", ["a\r\nx: y", "", "\x1b[2J", 5])
async def test_a_token_no_header_can_have_is_refused(site: Site, token: object) -> None:
    site.source.authorization, site.account = Account("me", "x").basic, Account("me", "x")
    site.source.token = token
    copied = await site.download()
    assert all("gave no token" in reason for reason in copied.failed.values())
    assert len(copied.failed) == 3


async def test_an_upload_goes_exactly_where_it_is_told(site: Site) -> None:
    """Storage signs addresses: the same one in another spelling is refused."""
    await site.download(site.wanted()[:1])
    site.mirror.state = "a%2Bb%2Fc%3D~%7E"
    assert (await site.upload([str(site.wanted()[0].reference)])).failed == {}


@pytest.mark.parametrize("place", ["http://[x", "http://x:99999999", "mailto:x"])
async def test_an_upload_needs_an_address(site: Site, place: str) -> None:
    await site.download(site.wanted()[:1])
    site.mirror.uploads_at = place
    uploaded = await site.upload([str(site.wanted()[0].reference)])
    assert "no place to upload to" in uploaded.failed[f"{SOURCE}/eks-anywhere/a:v1"]


@pytest.mark.parametrize(
    ("text", "registry", "repository", "name"),
    [
        ("public.ecr.aws/eks/x:v1", "public.ecr.aws", "eks/x", "v1"),
        ("localhost:5000/x:v1", "localhost:5000", "x", "v1"),
        (f"r.io/x@sha256:{'a' * 64}", "r.io", "x", f"sha256:{'a' * 64}"),
        (f"r.io/x:v1@sha256:{'a' * 64}", "r.io", "x", f"sha256:{'a' * 64}"),
    ],
)
def test_a_reference_has_parts(text: str, registry: str, repository: str, name: str) -> None:
    parsed = Reference.parse(text)
    assert (parsed.registry, parsed.repository, parsed.name, str(parsed)) == (registry, repository, name, text)


@pytest.mark.parametrize("text", ["x:v1", "r.io/x", "r.io/X:v1", "", "eks/x:v1"])
def test_a_wrong_reference_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="found"):
        Reference.parse(text)


def test_all_images_of_a_release_are_wanted() -> None:
    release = Releases.load().newest()
    every = wanted.of_release(release)
    names = {str(image.reference) for image in every}
    assert any("kube-apiserver:v1.36" in name for name in names)
    assert any("/etcd-io/etcd:" in name for name in names)
    assert any("/cilium/cilium:" in name for name in names)
    one_version = wanted.of_release(release, ["1.35"])
    assert {str(image.reference) for image in one_version} < names
    assert all("1.35 " in use for image in one_version for use in image.used_by)
    with pytest.raises(UnknownKubernetesVersion):
        wanted.of_release(release, ["1.99"])


def test_nodes_find_what_was_imported() -> None:
    """In the repository that containerd asks the mirror for."""
    plain = RegistryMirrorConfiguration(endpoint="harbor", port="5000")
    image = Reference.parse("public.ecr.aws/eks/x:v1")
    assert str(Mirror.of_cluster(plain).place(image)) == "harbor:5000/eks/x:v1"
    assert Mirror.of_cluster(plain).place(Reference.parse("quay.io/x:v1")) is None
    namespaces = [OCINamespace(registry="public.ecr.aws", namespace="mirror/eks")]
    below = msgspec.structs.replace(plain, oci_namespaces=namespaces)
    assert str(Mirror.of_cluster(below).place(image)) == "harbor:5000/mirror/eks/eks/x:v1"


def test_an_account_is_of_its_registry_alone(tmp_path: Path) -> None:
    auth = base64.b64encode(b"docker:pass:word").decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"harbor:5000": {"auth": auth}}}))
    environment = {"DOCKER_CONFIG": str(tmp_path), "REGISTRY_USERNAME": "me", "REGISTRY_PASSWORD": "secret"}
    assert commands.account("harbor:5000", environment, is_mirror=True) == Account("me", "secret")
    assert commands.account("harbor:5000", environment, is_mirror=False) == Account("docker", "pass:word")
    assert commands.account("public.ecr.aws", environment, is_mirror=False) is None


def test_an_account_may_come_from_a_helper(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"credsStore": "x", "auths": {"harbor:5000": {}}}))
    program = tmp_path / "docker-credential-x"
    program.write_text("""#!/bin/sh\necho '{"Username": "helped", "Secret": "secret"}'\n""")
    program.chmod(0o755)
    environment = {"DOCKER_CONFIG": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert commands.account("harbor:5000", environment, is_mirror=True) == Account("helped", "secret")


@pytest.mark.parametrize("command", [("import", "images", "-i", "images"), ("check-images",)])
def test_a_bad_docker_configuration_is_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "config.json").write_text("{")
    ended = LocalEnvironment(tmp_path).espalier(*command, "-r", "127.0.0.1:1", DOCKER_CONFIG=str(tmp_path))
    assert ended.code == 1
    assert "config.json is not a configuration of Docker" in ended.err
    assert "Traceback" not in ended.err


async def test_commands_copy_and_check_a_release(site: Site, tmp_path: Path) -> None:
    """As typed, with a part of a release missing at first."""
    env = LocalEnvironment(tmp_path)
    lines = env.espalier("list", "images", "--kubernetes", "1.35").out.split()
    assert len(lines) == len(wanted.of_release(Releases.load().newest(), ["1.35"]))
    for line in lines[1:]:
        image = Reference.parse(line)
        site.source.add_image(image.repository, image.tag, layers=1, platforms=1)

    async def typed(*arguments: str) -> CommandResult:
        return await asyncio.to_thread(env.espalier, *arguments, "--kubernetes", "1.35", "--insecure")

    mirror = f"{site.mirror.host}/m"
    failed = await typed("download", "images", "-o", "images", "-r", site.source.host)
    assert (failed.code, f"1 of {len(lines)} images failed" in failed.err) == (1, True)
    image = Reference.parse(lines[0])
    site.source.add_image(image.repository, image.tag)
    done = await typed("download", "images", "-o", "images", "-r", site.source.host)
    assert (done.code, f", {len(lines) - 1} were there" in done.err) == (0, True)
    missing = await typed("check-images", "-r", mirror)
    assert (missing.code, "`espalier import images` adds what is missing" in missing.err) == (1, True)
    assert (await typed("import", "images", "-i", "images", "-r", mirror)).code == 0
    assert (await typed("check-images", "-r", mirror, "-i", "images")).code == 0


@pytest.mark.parametrize(
    "text", ["https://x", "/x", "a b", "x/Y", "x/y:v1", "x/y?z", "u:p@x", "x/../y", "-x", "", "x:99999", "x:0"]
)
def test_a_wrong_registry_is_refused(text: str) -> None:
    with pytest.raises(Usage, match="--registry: found"):
        commands._mirror_at(text)


def test_a_registry_may_be_below_a_path() -> None:
    for text in ("harbor", "harbor:5000", "harbor.example.com/mirror/eks", "10.0.0.1:80/m", "[::1]:5000/m", "x/m/"):
        assert commands._mirror_at(text).host == text.partition("/")[0]


@pytest.mark.parametrize("command", ["check-images", "download images -o i", "import images -i i"])
def test_an_empty_registry_is_refused(tmp_path: Path, command: str) -> None:
    ended = LocalEnvironment(tmp_path).espalier(*command.split(), "-r", "")
    assert (ended.code, "--registry: found ''" in ended.err) == (2, True), ended.err


async def test_limit_of_file_sizes_is_named(site: Site, tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path)
    for line in env.espalier("list", "images", "--kubernetes", "1.35").out.split():
        image = Reference.parse(line)
        site.source.add_image(image.repository, image.tag, layers=1, platforms=1)
    words = ("download", "images", "-o", "images", "-r", site.source.host, "--kubernetes", "1.35", "--insecure")
    limited = ("/bin/sh", "-c", 'ulimit -f 2; exec "$@"', "sh", sys.executable, "-m", "espalier.cli", *words)
    process = await asyncio.create_subprocess_exec(
        *limited, stderr=asyncio.subprocess.PIPE, cwd=env.home, env={**env.environment, "PYTHONDONTWRITEBYTECODE": "1"}
    )
    _, err = await process.communicate()
    assert (process.returncode, b"Traceback" in err) == (1, False), err.decode()
    assert re.search(rb"images/blobs/sha256/\S+: File too large; .* the same command goes on", err), err.decode()
    assert (await asyncio.to_thread(env.espalier, *words)).code == 0


def test_wrong_port_in_a_manifest_is_refused() -> None:
    wrong = RegistryMirrorConfiguration(endpoint="harbor", port="99999")
    with pytest.raises(Failure, match=r"spec\.registryMirrorConfiguration: found 'harbor:99999', allowed is"):
        commands._mirror(None, wrong)


@pytest.mark.parametrize("name", ["none.pem", "folder", "text"])
def test_wrong_authorities_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("x")
    env = LocalEnvironment(tmp_path)
    result = env.espalier("check-images", "-r", "127.0.0.1:1", "--insecure", "--ca-file", str(tmp_path / name))
    assert (result.code, result.err.startswith(f"error: --ca-file: found {tmp_path / name}")) == (2, True)


def test_a_wrong_version_is_named_where_it_is(tmp_path: Path) -> None:
    env = LocalEnvironment(tmp_path)
    example = (Path(__file__).parents[3] / "examples" / "docker.yaml").read_text()
    manifest = tmp_path / "garden.yaml"
    for change, flag in (("eksaVersion: v0.1.0", "spec.eksaVersion"), ("", "--release"), ("", "--kubernetes")):
        manifest.write_text(example.replace("spec:\n", f"spec:\n  {change}\n", 1))
        given = () if change else (flag, "v0.1.0" if flag == "--release" else "1.1")
        result = env.espalier("list", "images", "-f", str(manifest), *given)
        assert (result.code, flag in result.err) == (1, True), result.err
