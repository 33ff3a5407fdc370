"""Proxies are chosen as Go programs choose them."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from espalier.kube.connection.proxies import by_environment, proxy_for

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("url", "no_proxy", "direct"),
    [
        ("https://kube.test:6443", "", False),
        ("https://localhost:6443", "", True),
        ("https://127.0.0.1:6443", "", True),
        ("https://[::1]:6443", "", True),
        ("https://kube.test:6443", "*", True),
        ("https://kube.test:6443", "other.test", False),
        ("https://kube.test:6443", "kube.test", True),
        ("https://kube.test:6443", "other.test, KUBE.test", True),
        ("https://api.kube.test", "kube.test", True),
        ("https://api.kube.test", ".kube.test", True),
        ("https://api.kube.test", "*.kube.test", True),
        ("https://kube.test", ".kube.test", False),
        ("https://notkube.test", "kube.test", False),
        ("https://kube.test:6443", "kube.test:6443", True),
        ("https://kube.test:6443", "kube.test:443", False),
        ("https://kube.test", "kube.test:443", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
    ],
)
def test_no_proxy(url: str, no_proxy: str, direct: bool) -> None:
    environment = {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}
    assert proxy_for(url, environment) == (None if direct else PROXY)


def test_each_scheme_has_its_variable_in_either_case() -> None:
    assert proxy_for("http://kube.test", {"HTTPS_PROXY": PROXY}) is None
    assert proxy_for("http://kube.test", {"http_proxy": "proxy.test:3128"}) == PROXY
    assert proxy_for("https://kube.test", {"https_proxy": PROXY, "no_proxy": "kube.test"}) is None


def test_each_redirection_goes_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry beyond the proxy sends to its storage in a range that is reached directly."""
    asked: list[tuple[str, str | None]] = []
    storage = ""

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.raw_path, request.headers.get("Proxy-Authorization")))
        if "registry.test" in request.raw_path:
            raise web.HTTPFound(storage)
        return web.Response(text="content")

    async def main() -> str:
        nonlocal storage
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        async with TestServer(app) as server:
            monkeypatch.setenv("HTTP_PROXY", f"http://anna:secret@127.0.0.1:{server.port}")
            storage = f"http://127.0.0.1:{server.port}/storage"
            session = aiohttp.ClientSession(middlewares=(by_environment,))
            async with session, session.get("http://registry.test/v2/") as response:
                return await response.text()

    assert asyncio.run(main()) == "content"
    login = aiohttp.encode_basic_auth("anna", "secret")
    assert asked == [("http://registry.test/v2/", login), ("/storage", None)]
