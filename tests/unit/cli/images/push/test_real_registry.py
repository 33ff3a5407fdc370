"""Pushes into a real registry (distribution), which knows no lists of statements, with and without credentials."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import REGISTRY
from espalier.cli.kit.connecting.registry_credentials import Credentials
from espalier.cli.local.images.push.archive import opened
from espalier.cli.local.images.push.pushing import Pushed, push
from espalier.cli.local.images.push.reference import Reference
from espalier.cli.local.images.push.registry import PushFailed, Registry
from tests.support.child_process import ChildProcess
from tests.support.objects.image_archives import small_archive
from tests.support.servers.image_registry import PASSWORD, USER, basic
from tests.support.servers.ports import free_port
from tests.support.waiting import eventually, is_listened_to

HOME = REGISTRY.home(assets_folder())
HASHED = "$2b$05$sXt.YrnuPHEP3BCqwNLE9.zDXg0D3PcCFfrMC.ODictZeXC9dmuN2"
"""`PASSWORD`, by bcrypt."""

pytestmark = pytest.mark.skipif(
    not is_finished(HOME), reason="the registry was not built: run make real-assets REAL=registry"
)


@asynccontextmanager
async def distribution(folder: Path, *, guarded: bool) -> AsyncIterator[str]:
    """The address of a running registry."""
    port = free_port()
    (folder / "users").write_text(f"{USER}:{HASHED}\n")
    configuration = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "stored")}},
        "http": {"addr": f"127.0.0.1:{port}"},
        "auth": {"htpasswd": {"realm": "images", "path": str(folder / "users")}} if guarded else {},
    }
    (folder / "config.yml").write_text(json.dumps(configuration))
    running = ChildProcess([HOME / "registry", "serve", folder / "config.yml"], folder=folder)
    try:

        async def listens() -> bool:
            running.check()
            return await is_listened_to(port)

        await eventually(listens)
        yield f"127.0.0.1:{port}"
    finally:
        await running.stop()


async def pushed(address: str, archive: Path, credentials: Credentials) -> Pushed:
    async with aiohttp.ClientSession() as session:
        with opened(archive) as images:
            place = Registry(Reference(address, "team/espalier", "v1"), credentials, session, plain_http=True)
            return await push(images, images.contents(), place, statements=True, show=lambda _: None)


def document(address: str, name: str, accept: str) -> Any:
    headers = {"Accept": accept, "Authorization": basic(USER, PASSWORD)}
    request = urllib.request.Request(f"http://{address}/v2/team/espalier/manifests/{name}", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "open"])
async def test_real_registry_takes_images_and_statements(tmp_path: Path, guarded: bool) -> None:
    archive = small_archive(tmp_path)
    async with distribution(tmp_path, guarded=guarded) as address:
        credentials = Credentials(USER, PASSWORD) if guarded else Credentials()
        first = await pushed(address, archive, credentials)
        second = await pushed(address, archive, credentials)
        assert (second.sent, second.there, second.digest) == (0, first.sent, first.digest)
        images = document(address, "v1", INDEX)["manifests"]
        assert [image["platform"]["architecture"] for image in images] == ["amd64", "arm64"]
        for image in images:
            (statement,) = document(address, image["digest"].replace(":", "-"), INDEX)["manifests"]
            assert statement["artifactType"] == "application/spdx+json"


async def test_real_registry_refuses_strangers(tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    async with distribution(tmp_path, guarded=True) as address:
        with pytest.raises(PushFailed, match="log in with `docker login"):
            await pushed(address, archive, Credentials())
        with pytest.raises(PushFailed, match=r"401; the credentials are those of config.json"):
            await pushed(address, archive, Credentials(USER, "battery staple", source="config.json"))
