"""What would happen, asked by kubectl and by `espalier plan`, on the embedded API server and on a real one."""

from __future__ import annotations

import asyncio
import json
import os
import re
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import yaml

from espalier.api.capi.machine import Machine
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from tests.journeys import kubectl_story as story
from tests.support.management import Management
from tests.support.world import PROGRAM

EXAMPLE = story.EXAMPLE.read_text()
UPGRADED = EXAMPLE.replace('"1.35"', '"1.36"').replace("count: 2", "count: 3")


async def dry_run(management: Management, manifest: str, *flags: str) -> list[str]:
    """The plan in the warnings of `kubectl apply --dry-run=server`."""
    arguments = ("apply", "--dry-run=server", *flags, "-f", "-")
    code, _, complaint = await management.kubectl.finish(*arguments, stdin=manifest)
    assert code == 0, complaint
    return re.findall(r"^Warning: (plan: .*)$", complaint, re.MULTILINE)


async def plan(management: Management, manifest: str, folder: Path) -> tuple[int, Tree]:
    """`espalier plan` with kubectl's own kubeconfig."""
    environment = {name: value for name, value in os.environ.items() if name != "ESPALIER_HOME"}
    kubeconfig = management.kubectl.kubeconfig
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "plan", "-f", "-", "-o", "json", "--kubeconfig", kubeconfig,
        env=environment, cwd=folder, stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, complaint = await process.communicate(manifest.encode())
    assert process.returncode is not None
    assert out, complaint.decode()
    return process.returncode, json.loads(out)["clusters"][0]


async def machines(management: Management) -> set[str]:
    return {found.name for found in (await management.client.list(Machine.resource, SYSTEM_NAMESPACE)).items}


async def test_what_would_happen_is_told_before_anything_does(
    starting: AbstractAsyncContextManager[Management], tmp_path: Path
) -> None:
    async with starting as management:
        kubectl = management.kubectl
        assert "plan: control plane: would make 1 machine" in await dry_run(management, EXAMPLE)
        code, new = await plan(management, EXAMPLE, tmp_path)
        assert (code, len(new["objects"])) == (1, 9)
        assert json.loads(await kubectl("get", "clusters.cluster.x-k8s.io", "-A", "-o", "json"))["items"] == []

        await story.create(management)
        assert await dry_run(management, EXAMPLE) == []  # kubectl sees itself that it is unchanged, and asks nobody
        by_server = await dry_run(management, EXAMPLE, "--server-side", "--force-conflicts")
        assert by_server == ["plan: nothing would change"]
        code, same = await plan(management, EXAMPLE, tmp_path)
        assert (code, same["wouldChange"]) == (0, False)

        before = await kubectl.tree(story.GARDEN)
        told = await dry_run(management, UPGRADED)
        assert any(
            re.match(r"plan: control plane: would replace 1 machine because of version, ", line) for line in told
        )
        assert any(
            re.match(r"plan: garden-md-0: would replace 2 machines .*; would make 1 machine$", line) for line in told
        )
        code, upgraded = await plan(management, UPGRADED, tmp_path)
        assert code == 1
        assert (await kubectl.tree(story.GARDEN))["metadata"]["resourceVersion"] == before["metadata"][
            "resourceVersion"
        ]

        there = await machines(management)
        going = {one["name"] for group in upgraded["machines"] for one in group["going"]}
        assert going == there
        await kubectl("apply", "-f", "-", stdin=UPGRADED)
        await story.ready(management)
        now = await machines(management)
        assert not there & now
        assert len(now) == sum(group["coming"] for group in upgraded["machines"])
        written = {(one["kind"], one["name"]) for one in upgraded["objects"] if one["action"] == "create"}
        templates = await kubectl("get", "dockermachinetemplates", "-n", SYSTEM_NAMESPACE, "-o", "yaml")
        assert {
            ("DockerMachineTemplate", one["metadata"]["name"]) for one in yaml.safe_load(templates)["items"]
        } == written
