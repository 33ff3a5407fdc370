"""Bare metal, as an administrator tells Tinkerbell of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.kube.client import Client, PatchType
from espalier.providers.kinds import hardware_manifest
from espalier.providers.tinkerbell.hardware_kinds import OWNER_NAME, BMCMachine, Hardware

PLANE, WORKER = "control-plane", "worker"
RESOURCES = {"Hardware": Hardware.resource, "Machine": BMCMachine.resource, "Secret": SECRET}
HEAD = "hostname,mac,ip_address,netmask,gateway,nameservers,labels,disk,bmc_ip,bmc_username,bmc_password"


def pieces(type_: str, count: int, *, first: int = 1) -> list[Tree]:
    """The objects of so many machines with label `type`."""
    lane = {PLANE: 1, WORKER: 2}.get(type_, 3)
    lines = [
        f"{type_}-{n},3c:ec:ef:00:{lane:02x}:{n:02x},10.9.{lane}.{n},255.255.0.0,10.9.0.1,10.9.0.2,type={type_},"
        f"/dev/sda,10.9.{lane + 10}.{n},admin,a-canary-of-bmcs"
        for n in range(first, first + count)
    ]
    return of_csv(lines)


def of_csv(lines: Sequence[str]) -> list[Tree]:
    """The objects of lines below `HEAD`."""
    return hardware_manifest("\n".join([HEAD, *lines]).encode(), "hardware.csv")[0]


def rack(planes: int = 1, workers: int = 1) -> list[Tree]:
    """The objects of a rack."""
    return [*pieces(PLANE, planes), *pieces(WORKER, workers)]


async def put(client: Client, trees: Sequence[Tree]) -> None:
    """Tell of bare metal."""
    for tree in trees:
        await client.apply(RESOURCES[tree["kind"]], tree, field_manager="administrator")


async def change(client: Client, name: str, **spec: Any) -> None:
    """Replace fields of the spec of one Hardware."""
    await client.patch(Hardware.resource, name, SYSTEM_NAMESPACE, patch={"spec": spec}, type=PatchType.MERGE)


async def holders(client: Client) -> dict[str, str]:
    """Which TinkerbellMachine has each Hardware; empty for none."""
    hardwares = (await client.list(Hardware.resource, SYSTEM_NAMESPACE)).items
    return {item.name: item.metadata.labels.get(OWNER_NAME, "") for item in hardwares}
