"""`espalier image push`: what it prints, and what it refuses before anything is sent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.objects.image_archives import small_archive
from tests.support.servers.image_registry import PASSWORD, USER, basic, image_registry, refused
from tests.support.servers.web_server import web_server


async def command(folder: Path, *words: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "espalier.cli", "image", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "DOCKER_CONFIG": str(folder)},
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_name_with_digest_is_printed(tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    async with image_registry() as registry:
        registry.authentication = "token"
        auth = basic(USER, PASSWORD).removeprefix("Basic ")
        (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.address: {"auth": auth}}}))
        name = f"{registry.address}/team/espalier:v1"
        code, out, err = await command(tmp_path, "push", str(archive), name, "--plain-http")
        assert (code, out) == (0, f"{name}@{registry.tags['v1']}\n"), err
        code, _, err = await command(tmp_path, "push", str(archive), name, "--plain-http")
        assert "0 blobs sent" in err


async def test_refusal_is_one_sentence_without_a_tag(tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    async with image_registry() as registry:

        async def full(_: object) -> object:
            return refused(403, "DENIED", "quota exceeded")

        registry.faults.append(full)  # type: ignore[arg-type]
        code, out, err = await command(tmp_path, "push", str(archive), f"{registry.address}/a:v1", "--plain-http")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("error: nothing was tagged: ")
    assert "Traceback" not in err
    assert "docker login" in err
    assert registry.tags == {}


async def test_failure_after_the_tag_denies_no_tag(tmp_path: Path) -> None:
    archive = small_archive(tmp_path)
    async with image_registry() as registry:

        async def forbidden(request: web.Request) -> web.StreamResponse | None:
            is_of_tag = request.method == "HEAD" and request.path.endswith("/manifests/v1")
            return refused(403, "DENIED", "") if is_of_tag else None

        registry.faults.append(forbidden)
        code, out, err = await command(tmp_path, "push", str(archive), f"{registry.address}/a:v1", "--plain-http")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("error: the tag may have been set: ")
    assert "v1" in registry.tags


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("push", "absent.tar"), 1, "absent.tar can't be read: No such file or directory"),
        (("push", "image.tar", "espalier:v1"), 2, "NAME: found espalier:v1, without a registry"),
        (("push", "program"), 1, "program is not an OCI archive of an image, or was cut off\n"),
        (("build", "manager"), 2, "--output: found nothing"),
        (("build", "manager", "--push", "--tag", "espalier:1"), 2, "--tag: found espalier:1, without a registry"),
        (("build", "manager", "--push"), 2, "--tag: found nothing; allowed"),
        (("build", "manager", "-o", "x", "--platform", "linux/riscv64"), 2, "linux/amd64"),
        (
            ("build", "upgrader", "-o", "x", "--platform", "linux/amd64"),
            2,
            "--platform: allowed only for manager and seed",
        ),
        (("build", "manager", "-o", "x", "--tag", "UPPER CASE:x y"), 2, "--tag: found UPPER CASE:x y, allowed"),
        (("build", "manager", "-o", "x", "--tag", "example.com/a"), 2, "--tag: found example.com/a, allowed"),
        (("build", "manager", "-o", "none/x.tar"), 2, "--output: found none/x.tar, but none is no folder"),
        (("build", "manager", "-o", "layout"), 2, "--output: found layout, which is a folder"),
        (("build", "manager", "-o", "x", "--plain-http"), 2, "--plain-http: found without --push"),
        (("build", "manager", "-o", "x", "--no-statements"), 2, "--no-statements: found without --push"),
        (("build", "seed", "-o", "x", "--kubernetes-version", "v1"), 2, "allowed only for the upgrader"),
    ],
)
async def test_wrong_words_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, message: str
) -> None:
    small_archive(tmp_path)
    monkeypatch.chdir(tmp_path)
    ended, _, err = await command(tmp_path, *words)
    assert ended == code
    assert " ".join(message.split()) in " ".join(err.split())
    assert len(err.splitlines()) == 1


async def test_build_ends_with_a_signal(tmp_path: Path) -> None:
    """In the middle of a download that would go on for a minute."""
    asked = asyncio.Event()

    async def silent(_: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await asyncio.sleep(3600)
        raise AssertionError

    async with web_server(silent) as port:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "espalier.cli", "image", "build", "manager", "-o", str(tmp_path / "x.tar")),
            stderr=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                "TMPDIR": str(tmp_path),
                "ESPALIER_CACHE": str(tmp_path / "cache"),
                "ESPALIER_DEBIAN_MIRROR": f"http://127.0.0.1:{port}",
            },
        )
        try:
            await asyncio.wait_for(asked.wait(), 60)
            process.terminate()
            _, err = await asyncio.wait_for(process.communicate(), 50)
        finally:
            if process.returncode is None:
                process.kill()
    assert (process.returncode, err.decode().splitlines()[-1]) == (130, "error: interrupted")
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
