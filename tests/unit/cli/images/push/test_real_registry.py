"""Pushes into a real registry (distribution), which knows no lists of statements, with and without credentials."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from espalier.cli.kit.connecting.registry_credentials import Credentials
from espalier.cli.local.images.push.archive import opened
from espalier.cli.local.images.push.pushing import Pushed, push
from espalier.cli.local.images.push.reference import Reference
from espalier.cli.local.images.push.registry import PushFailed, Registry
from tests.support.objects.image_archives import small_archive
from tests.support.servers import real_registry
from tests.support.servers.image_registry import PASSWORD, USER, basic

pytestmark = real_registry.NEEDED


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
    async with real_registry.real_registry(tmp_path / "registry", guarded=guarded) as registry:
        credentials = Credentials(USER, PASSWORD) if guarded else Credentials()
        first = await pushed(registry.address, archive, credentials)
        second = await pushed(registry.address, archive, credentials)
        assert (second.sent, second.there, second.digest) == (0, first.sent, first.digest)
        images = document(registry.address, "v1", INDEX)["manifests"]
        assert [image["platform"]["architecture"] for image in images] == ["amd64", "arm64"]
        for image in images:
            (statement,) = document(registry.address, image["digest"].replace(":", "-"), INDEX)["manifests"]
            assert statement["artifactType"] == "application/spdx+json"


async def test_real_registry_refuses_strangers(tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    async with real_registry.real_registry(tmp_path / "registry", guarded=True) as registry:
        with pytest.raises(PushFailed, match="log in with `docker login"):
            await pushed(registry.address, archive, Credentials())
        with pytest.raises(PushFailed, match=r"401; the credentials are those of config.json"):
            await pushed(registry.address, archive, Credentials(USER, "battery staple", source="config.json"))
