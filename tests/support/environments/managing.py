"""A manager that runs while a block does, and its webhooks at an API server that calls them over TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from espalier.api.core import MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.cli.install import manifests
from espalier.cli.programs.manager_task import ManagerTask
from espalier.clusters import rbac
from espalier.kube.client import Client
from espalier.runtime.manager import Manager


@asynccontextmanager
async def led_by(manager: Manager, *, at_once: bool = False) -> AsyncIterator[ManagerTask]:
    """Its controllers run when the block begins, or with `at_once` some time. Raises, also at the end, what ended the
    manager before."""
    managing = ManagerTask.begin(manager)
    try:
        if not at_once:
            await managing.leading()
        yield managing
    finally:
        manager.stop()
        await managing.task


async def register_webhooks(client: Client, url: str, authority: bytes) -> None:
    """Have the API server ask for admission at `url`, whose certificate is by this authority (PEM)."""
    for resource, tree in manifests.webhook_configurations(url):
        for webhook in tree["webhooks"]:
            webhook["clientConfig"]["caBundle"] = msgspec.to_builtins(authority)
        await client.apply(resource, tree)


@asynccontextmanager
async def unasked(client: Client) -> AsyncIterator[None]:
    """While no webhook of ours is asked, as when somebody took them away, or another manager had none."""
    configurations = [
        (VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS),
        (MUTATING_WEBHOOK_CONFIGURATION, rbac.MUTATING_WEBHOOKS),
    ]
    results = [(await client.get(resource, name)).tree["webhooks"] for resource, name in configurations]
    for resource, name in configurations:
        await client.delete(resource, name)
    yield
    for (resource, name), hooks in zip(configurations, results, strict=True):
        await client.create(resource, {"metadata": {"name": name}, "webhooks": hooks})
