from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web

from espalier.cli.kit.failures import explain
from espalier.runtime.servers.health import health_application
from espalier.runtime.servers.serving import HttpServer


async def answer(application: web.Application, path: str) -> tuple[int, str]:
    server = HttpServer(application, "127.0.0.1", 0)
    await server.start()
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{server.port}{path}") as response,
        ):
            return response.status, await response.text()
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/healthz", 200, "ok"),
        (
            "/readyz",
            500,
            "[+]ping ok\n[-]caches failed: not listed yet: secrets\n[+]webhooks ok\nreadyz check failed\n",
        ),
        ("/readyz/webhooks", 200, "ok"),
        ("/readyz/caches", 500, "[-]caches failed: not listed yet: secrets\nreadyz check failed\n"),
        ("/readyz?exclude=caches", 200, "ok"),
        ("/readyz/?exclude=caches&verbose", 200, "[+]ping ok\n[+]webhooks ok\nreadyz check passed\n"),
    ],
)
async def test_probes_get_a_code_and_people_the_reasons(path: str, status: int, text: str) -> None:
    application = health_application({}, {"caches": lambda: "not listed yet: secrets", "webhooks": lambda: ""})
    assert await answer(application, path) == (status, text)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/readyz", 200, "[+]ping ok\n[+]caches ok\n[-]releases failed: one is missing\nreadyz check passed\n"),
        ("/readyz/releases", 500, "[-]releases failed: one is missing\nreadyz check failed\n"),
        ("/readyz?exclude=releases", 200, "ok"),
        ("/healthz", 200, "ok"),
    ],
)
async def test_notice_is_shown_and_does_not_affect_readiness(path: str, status: int, text: str) -> None:
    application = health_application({}, {"caches": lambda: ""}, {"releases": lambda: "one is missing"})
    assert await answer(application, path) == (status, text)


async def test_an_address_in_use_is_named() -> None:
    first = HttpServer(web.Application(), "127.0.0.1", 0)
    await first.start()
    second = HttpServer(web.Application(), "127.0.0.1", first.port)
    try:
        with pytest.raises(OSError, match="cannot listen there, address already in use") as failure:
            await second.start()
        explanation = explain(failure.value)
        assert explanation is not None
        assert explanation[1].startswith(f"127.0.0.1:{first.port}: cannot listen there")
    finally:
        await first.stop()
