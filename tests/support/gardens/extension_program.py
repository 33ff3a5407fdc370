"""The extensions of type `local` as a program: a seed's API server, the cloud and the buckets are those of the test.

`served_cloud` is what it calls: the simulated cloud at a port of the test's process.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from espalier.api.cloud import AnyItem, CallCloud, CloudError, CloudRequest, Refusal
from espalier.api.etcd.timing import Timing
from espalier.cli.local.environment.seed_processes.buckets import FolderBuckets
from espalier.cli.programs import garden_components, processes
from espalier.runtime.component import assemble
from espalier.shoots.local_provider import setup as local_provider

VARIABLE = "ESPALIER_TEST_EXTENSIONS"
HOST = "127.0.0.1"
AGENT = "extensions"
PATIENCE = 10.0


class Places(msgspec.Struct):
    """The API servers and buckets that the extensions of a seed reach."""

    kubeconfig: str
    """The file with access to the seed."""
    cloud: int
    """The port of the cloud."""
    buckets: str
    """The folder of all buckets."""
    timing: Timing


class Refused(msgspec.Struct):
    """The cloud's answer to a request that it refuses."""

    refusal: Refusal
    message: str


class ServedCloud:
    """A cloud at a port. What an extension asked for that was killed meanwhile is carried out all the same."""

    def __init__(self, call: CallCloud) -> None:
        self._call = call
        self._runner: web.AppRunner | None = None
        self._calls: set[asyncio.Task[web.Response]] = set()

    async def start(self) -> int:
        """Start; returns the port."""
        application = web.Application()
        application.router.add_post("/", self._serve)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, 0)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Stop; idempotent."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        call = asyncio.create_task(self._answer(msgspec.json.decode(await request.read(), type=CloudRequest)))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return await asyncio.shield(call)

    async def _answer(self, request: CloudRequest) -> web.Response:
        try:
            items = await self._call(request)
        except CloudError as error:
            return web.Response(status=409, body=msgspec.json.encode(Refused(error.refusal, str(error))))
        return web.Response(body=msgspec.json.encode(items))


def calls_over(http: aiohttp.ClientSession, port: int) -> CallCloud:
    """Calls to a `ServedCloud`."""

    async def call(request: CloudRequest) -> list[AnyItem]:
        try:
            async with http.post(f"http://{HOST}:{port}/", data=msgspec.json.encode(request)) as response:
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise CloudError(Refusal.UNAVAILABLE, f"the cloud does not answer: {error}") from error
        if response.status == 200:
            return msgspec.json.decode(content, type=list[AnyItem])
        refused = msgspec.json.decode(content, type=Refused)
        raise CloudError(refused.refusal, refused.message)

    return call


async def run(places: Places) -> int:
    """Run the extensions until they are killed."""
    connection = processes.managed(
        kubeconfig=Path(places.kubeconfig),
        context=None,
        user_agent=AGENT,
        lease=None,
        health_address="0",
        metrics_address="0",
        log_level="warning",
        component=AGENT,
        hint=garden_components.hint,
    )
    link: Any = SimpleNamespace(folder=Path(places.buckets), is_cut=False)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE)) as http, connection as manager:
        call = calls_over(http, places.cloud)
        made = local_provider.component(call, FolderBuckets(link), places.timing, lambda: secrets.token_hex(8))
        assemble(manager, [made])
        return await manager.run(signals=True)


if __name__ == "__main__":
    asyncio.run(run(msgspec.json.decode(os.environ[VARIABLE], type=Places)))
