"""The real clusterctl, where it was built: it moves clusters between API servers, and is killed while it does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from espalier.api.capi import cluster as capi
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import CLUSTERCTL
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from tests.support.servers.clusterctl import DISCOVERY

_HOME = CLUSTERCTL.home(assets_folder())
PROGRAM = _HOME / "clusterctl" if is_finished(_HOME) else None


@dataclass(frozen=True)
class Ended:
    """How a run ended. `lines` were printed; `code` is negative if it was killed."""

    code: int
    lines: list[str]

    def printed(self, start: str) -> int:
        """The number of lines that start so."""
        return sum(line.startswith(start) for line in self.lines)


async def run(folder: Path, *arguments: str, killed_after: int | None = None) -> Ended:
    """clusterctl with an empty home in `folder`; killed (-9) once it has printed so many lines."""
    assert PROGRAM is not None
    environment: Mapping[str, str] = {
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "PATH": os.environ["PATH"],
        "CLUSTERCTL_DISABLE_VERSIONCHECK": "true",
    }
    process = await asyncio.create_subprocess_exec(
        PROGRAM, *arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    lines: list[str] = []
    try:
        assert process.stdout is not None
        async for line in process.stdout:
            lines.append(line.decode().rstrip())
            if len(lines) == killed_after:
                process.kill()
                break
    finally:
        with contextlib.suppress(ProcessLookupError):
            if process.returncode is None and len(lines) == killed_after:
                process.kill()
        code = await process.wait()
    return Ended(code, lines)


async def make_discoverable(client: Client) -> None:
    """Label the definitions of Cluster API and its providers as `clusterctl init` does."""
    for custom_resource_definition in (await client.list(CUSTOM_RESOURCE_DEFINITION)).items:
        if (
            custom_resource_definition.tree["spec"]["group"].endswith(capi.GROUP)
            and DISCOVERY not in custom_resource_definition.metadata.labels
        ):
            patch = {"metadata": {"labels": {DISCOVERY: ""}}}
            await client.patch(
                CUSTOM_RESOURCE_DEFINITION, custom_resource_definition.name, patch=patch, type=PatchType.MERGE
            )


async def unpause(client: Client, name: str) -> bool:
    """End the pause that a killed clusterctl left, as its next run demands; False if the Cluster is gone."""
    try:
        await client.patch(
            capi.Cluster.resource, name, SYSTEM_NAMESPACE, patch={"spec": {"paused": False}}, type=PatchType.MERGE
        )
    except NotFound:
        return False
    return True


def moments(seed: int, count: int, most: int) -> list[int]:
    """Numbers of lines after which it is killed."""
    return random.Random(seed).sample(range(1, most), count)
