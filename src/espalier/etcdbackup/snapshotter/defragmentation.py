"""Defragments all members in sequence: a member answers nothing meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

import structlog

from espalier.etcd.client import Client
from espalier.etcd.errors import EtcdError
from espalier.etcd.results import Member
from espalier.etcdbackup.snapshotter.measures import Measures
from espalier.etcdbackup.snapshotter.schedule import following
from espalier.runtime.clock import Clock

log = structlog.get_logger(__name__)

MAX_WAIT = 60.0
"""Seconds after which the schedule is compared with the wall clock again."""


async def defragment(own: Client, client_of: Callable[[Member], Client], clock: Clock, measures: Measures) -> None:
    """Defragment all members, the member of `own` last, because it leads. Raises `EtcdError` for the first that fails.

    Nothing is defragmented while a member does not answer, or while an alarm other than NOSPACE is on: then the cluster
    may not be able to spare a member.
    """
    status = await own.status()
    other_members = [member for member in await own.members() if member.id != status.header.member_id]
    for alarm in await own.alarms():
        if alarm.type != "NOSPACE":
            log.warning("not defragmented: etcd has an alarm", alarm=alarm.type)
            return
    clients: list[Client] = []
    try:
        for member in other_members:
            clients.append(client_of(member))
        for client in clients:
            await client.status()
        for client in (*clients, own):
            await _defragment_member(client, clock, measures)
    finally:
        for client in clients:
            await client.close()


async def _defragment_member(client: Client, clock: Clock, measures: Measures) -> None:
    began = clock.monotonic()
    before = (await client.status()).db_size
    try:
        await client.defragment()
    except EtcdError:
        measures.record_defragmentation(clock.monotonic() - began, False)
        raise
    measures.record_defragmentation(clock.monotonic() - began, True)
    log.info("defragmented a member", bytes_before=before, bytes=(await client.status()).db_size)


async def defragment_on_schedule(
    own: Client,
    client_of: Callable[[Member], Client],
    clock: Clock,
    measures: Measures,
    expression: str,
) -> NoReturn:
    """Defragment by a cron expression, on behalf of the member that leads, until cancelled."""
    due = following(expression, clock.now())
    while True:
        await asyncio.sleep(min(MAX_WAIT, max(0.0, (due - clock.now()).total_seconds())))
        if clock.now() < due:
            continue
        due = following(expression, clock.now())
        try:
            await defragment(own, client_of, clock, measures)
        except EtcdError as error:
            log.warning("defragmentation failed", error=str(error))
