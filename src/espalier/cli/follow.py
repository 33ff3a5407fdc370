"""Waiting for a condition of one object, by watch and never by polling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from espalier.api import conditions as condition_list
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Condition
from espalier.api.resource import Key, Resource
from espalier.cli.failures import Failure, Overdue
from espalier.cli.progress import Progress
from espalier.kube.client import Client
from espalier.kube.errors import Expired
from espalier.kube.objects import Object

PATIENCE = 3.0
"""Seconds for which a failure must last before a command gives up."""

BACKGROUND = "It continues in the background while a manager runs; `espalier get clusters -A` shows its status"


async def follow(client: Client, resource: Resource, key: Key) -> AsyncGenerator[Object | None, None]:
    """Each state of one object, starting with the current one; None while it does not exist. Never ends by itself."""
    fields = f"metadata.name={key.name}"
    while True:
        listed = await client.list(resource, key.namespace or None, fields=fields)
        yield listed.items[0] if listed.items else None
        version = listed.resource_version
        try:
            while True:
                async for event in client.watch(
                    resource, key.namespace or None, resource_version=version, fields=fields
                ):
                    version = event.object.resource_version or version
                    if event.type != "BOOKMARK":
                        yield None if event.type == "DELETED" else event.object
        except Expired:
            continue


async def until_ready(client: Client, key: Key, *, generation: int, timeout: float, progress: Progress) -> Cluster:
    """The Cluster once it is Ready at `generation` or later.

    Raises `Failure` with its failure reason, `Overdue` after `timeout` seconds with what is still waited for. A failure
    counts once it has lasted for `PATIENCE` seconds: the first one seen may be older than what was asked for just now.
    """
    waiting, failure = "waiting for the first reconcile", ""
    try:
        async with asyncio.timeout(timeout), aclosing(follow(client, Cluster.resource, key)) as states:
            while True:
                state = await _next(states, failure)
                if state is None:
                    raise Failure(f"cluster {key} was deleted meanwhile")
                cluster = state.decode(Cluster)
                ready = condition(cluster, "Ready")
                if ready and ready.observed_generation >= generation:
                    if ready.status == "True":
                        return cluster
                    waiting, failure = blocking(cluster), _failure(cluster)
                progress.wait(waiting)
    except TimeoutError:
        raise Overdue(f"cluster {key} is not ready after {timeout:g} s: {waiting}. {BACKGROUND}") from None


async def _next(states: AsyncGenerator[Object | None, None], failure: str) -> Object | None:
    """The next state; raises a failure after its time, unless another state comes first."""
    try:
        async with asyncio.timeout(PATIENCE if failure else None):
            return await anext(states)
    except TimeoutError:
        raise Failure(failure) from None


def _failure(cluster: Cluster) -> str:
    status, metadata = cluster.status, cluster.metadata
    if not status.failure_reason:
        return ""
    return f"cluster {metadata.namespace}/{metadata.name} failed: {status.failure_reason}: {status.failure_message}"


async def until_gone(client: Client, key: Key, *, timeout: float, progress: Progress) -> None:
    """Returns once the Cluster is gone. Raises `Failure` with its failure reason, as `until_ready` does, and `Overdue`
    after `timeout` seconds with what is still waited for."""
    waiting, failure = "its machines are being removed", ""
    try:
        async with asyncio.timeout(timeout), aclosing(follow(client, Cluster.resource, key)) as states:
            while True:
                state = await _next(states, failure)
                if state is None:
                    return
                cluster = state.decode(Cluster)
                waiting = blocking(cluster)
                # What blocked it before its deletion no longer does.
                failure = _failure(cluster) if cluster.status.phase == "Deleting" else ""
                progress.wait(waiting)
    except TimeoutError:
        raise Overdue(f"cluster {key} is not gone after {timeout:g} s: {waiting}. {BACKGROUND}") from None


def condition(cluster: Cluster, type_: str) -> Condition | None:
    """The condition of that type, if the Cluster has it."""
    return condition_list.get(cluster.status.conditions, type_)


def blocking(cluster: Cluster) -> str:
    """The message of the condition that the cluster waits for."""
    ready = condition(cluster, "Ready")
    return ready.message if ready and ready.message else "waiting for the first status"
