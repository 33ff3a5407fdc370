from __future__ import annotations

import aiohttp
import pytest

from espalier.runtime.health import health_application
from espalier.runtime.serving import HttpServer


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
async def test_what_kubelet_and_people_are_told(path: str, status: int, text: str) -> None:
    application = health_application({}, {"caches": lambda: "not listed yet: secrets", "webhooks": lambda: ""})
    server = HttpServer(application, "127.0.0.1", 0)
    await server.start()
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{server.port}{path}") as response,
        ):
            assert (response.status, await response.text()) == (status, text)
    finally:
        await server.stop()
