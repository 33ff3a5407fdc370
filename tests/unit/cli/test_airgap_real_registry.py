"""Images of a release in a real registry (distribution): imported, checked and downloaded as typed, whatever ends in
the middle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from espalier.cli.clusters.airgap import wanted
from espalier.releases import Releases
from tests.support.environments.environment import PROGRAM, CommandResult, LocalEnvironment
from tests.support.servers import real_registry
from tests.support.servers.image_registry import PASSWORD, USER
from tests.support.servers.oci_registry import OciRegistry
from tests.support.servers.real_registry import RealRegistry
from tests.support.waiting import eventually

pytestmark = real_registry.NEEDED

IMAGES = wanted.of_release(Releases.load().newest(), ["1.35"])


@dataclass
class Site:
    """A mirror without the internet, and a folder with the images of a release."""

    env: LocalEnvironment
    mirror: RealRegistry

    def words(self, *words: str) -> tuple[str, ...]:
        """Those of a command about the mirror."""
        return (*words, "-r", f"{self.mirror.address}/mirror", "--insecure", "--kubernetes", "1.35")

    async def typed(self, *words: str, password: str = PASSWORD) -> CommandResult:
        """The end of a command about the mirror."""
        name = USER if password else ""
        return await asyncio.to_thread(
            lambda: self.env.espalier(*self.words(*words), REGISTRY_USERNAME=name, REGISTRY_PASSWORD=password)
        )

    async def is_complete(self) -> CommandResult:
        """The end of a check of the mirror against the folder."""
        return await self.typed("check-images", "-i", "images")

    async def begun(self) -> asyncio.subprocess.Process:
        """An import of which the mirror has some images."""
        before = self.mirror.images
        account = {"REGISTRY_USERNAME": USER, "REGISTRY_PASSWORD": PASSWORD}
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *self.words("import", "images", "-i", "images"),
            cwd=self.env.home,
            env=self.env.environment | account,
            stderr=asyncio.subprocess.PIPE,
        )
        await eventually(lambda: before < self.mirror.images)
        assert self.mirror.images < len(IMAGES)
        return process


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    env, source = LocalEnvironment(tmp_path), OciRegistry()
    for image in IMAGES:
        source.add_image(image.reference.repository, image.reference.tag)
    async with real_registry.real_registry(tmp_path / "mirror", guarded=True) as mirror:
        async with source.serving() as host:
            words = ("download", "images", "-o", "images", "-r", host, "--insecure", "--kubernetes", "1.35")
            downloaded = await asyncio.to_thread(env.espalier, *words)
        assert downloaded.code == 0, downloaded.err
        yield Site(env, mirror)


async def test_real_registry_becomes_a_mirror(site: Site) -> None:
    imported = await site.typed("import", "images", "-i", "images")
    assert (imported.code, f"{len(IMAGES)} images copied to" in imported.err) == (0, True), imported.err
    again = await site.typed("import", "images", "-i", "images")
    assert (again.code, f"0 images copied to {site.mirror.address}, {len(IMAGES)} were" in again.err) == (0, True)
    assert (await site.is_complete()).code == 0
    back = await site.typed("download", "images", "-o", "back")
    assert back.code == 0, back.err
    indexes = [json.loads((site.env.home / name / "index.json").read_text()) for name in ("images", "back")]
    assert indexes[0] == indexes[1]


async def test_real_registry_refuses_strangers(site: Site) -> None:
    for password, reason in (("", "wants an account: set REGISTRY_USERNAME"), ("wrong", "(with account robot): corr")):
        for words in (("import", "images", "-i", "images"), ("check-images",)):
            refused = await site.typed(*words, password=password)
            assert (refused.code, reason in " ".join(refused.err.split())) == (1, True), refused.err
    assert site.mirror.images == 0


async def test_real_registry_is_killed_in_an_import(site: Site) -> None:
    """The import waits for it to come back."""
    process = await site.begun()
    await site.mirror.kill()
    assert process.stderr is not None
    async for line in process.stderr:
        if b"attempt 2 of 5" in line:
            break
    await site.mirror.start()
    _, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert (await site.is_complete()).code == 0


async def test_import_into_a_real_registry_is_killed(site: Site) -> None:
    """The next one adds what is missing, of which a check names each image."""
    process = await site.begun()
    process.kill()
    await process.communicate()
    missing = await site.typed("check-images")
    absent = [str(image.reference) for image in IMAGES if f"  {image.reference}\n" in missing.err]
    assert (missing.code, len(absent)) == (1, len(IMAGES) - site.mirror.images), missing.err
    finished = await site.typed("import", "images", "-i", "images")
    assert (finished.code, f"{len(absent)} images copied to" in finished.err) == (0, True), finished.err
    assert (await site.is_complete()).code == 0
