"""Dry runs, by kubectl and by `espalier plan`, on the embedded API server and on a real one."""

from __future__ import annotations

import asyncio
import json
import os
import re
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import yaml

from espalier.api.capi.machine import Machine
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.clusters.admission.admission import VALIDATE_CLUSTER
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.environment import PROGRAM
from tests.support.environments.managed_environment import GARDEN, managed_environment
from tests.support.environments.management import Management
from tests.support.histories import kubectl_story as story

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
    return {item.name for item in (await management.client.list(Machine.resource, SYSTEM_NAMESPACE)).items}


@pytest.mark.demand(L56="nothing differs afterwards")
@pytest.mark.soak
async def test_dry_run_warns_of_the_effects_of_a_change(
    starting: AbstractAsyncContextManager[Management], tmp_path: Path
) -> None:
    async with starting as management:
        kubectl = management.kubectl
        assert "plan: control plane: would create 1 machine" in await dry_run(management, EXAMPLE)
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
            re.match(r"plan: garden-md-0: would replace 2 machines .*; would create 1 machine$", line) for line in told
        )
        code, upgraded = await plan(management, UPGRADED, tmp_path)
        assert code == 1
        assert (await kubectl.tree(story.GARDEN))["metadata"]["resourceVersion"] == before["metadata"][
            "resourceVersion"
        ]

        there = await machines(management)
        going = {item["name"] for group in upgraded["machines"] for item in group["going"]}
        assert going == there
        await kubectl("apply", "-f", "-", stdin=UPGRADED)
        await story.ready(management)
        now = await machines(management)
        assert not there & now
        assert len(now) == sum(group["coming"] for group in upgraded["machines"])
        written = {
            (object_["kind"], object_["name"]) for object_ in upgraded["objects"] if object_["action"] == "create"
        }
        templates = await kubectl("get", "dockermachinetemplates", "-n", SYSTEM_NAMESPACE, "-o", "yaml")
        assert {
            ("DockerMachineTemplate", item["metadata"]["name"]) for item in yaml.safe_load(templates)["items"]
        } == written


@pytest.mark.soak
@pytest.mark.embedded
def test_forged_review_learns_nothing_of_a_cluster() -> None:
    """The webhooks' port answers whoever reaches it; who is none of the API servers doesn't know the Cluster's uid."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as environment:
            await environment.apply()
            await environment.until_ready()
            stored = (await environment.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)).tree
            upgraded = msgspec.json.decode(msgspec.json.encode(stored))
            upgraded["spec"]["workerNodeGroupConfigurations"][0]["count"] = 7

            def warnings_of(operation: str, uid: str | None, name: str = GARDEN.name) -> list[str]:
                trees = []
                for tree in (upgraded, stored):
                    metadata = {key: value for key, value in tree["metadata"].items() if key != "uid"}
                    metadata |= {"name": name} | ({"uid": uid} if uid is not None else {})
                    trees.append({**tree, "metadata": metadata})
                asked = {"uid": "u1", "operation": operation, "dryRun": True, "object": trees[0]}
                if operation == "UPDATE":
                    asked["oldObject"] = trees[1]
                body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
                answer = msgspec.json.decode(environment.webhooks.review(VALIDATE_CLUSTER, msgspec.json.encode(body)))
                return [line for line in answer["response"].get("warnings", []) if line.startswith("plan:")]

            assert any("would create 5 machines" in line for line in warnings_of("UPDATE", stored["metadata"]["uid"]))
            for operation in ("UPDATE", "CREATE"):
                for uid in (None, "", "11111111-2222-3333-4444-555555555555"):
                    assert warnings_of(operation, uid) == []
            assert warnings_of("CREATE", None, "another"), "what a new cluster would be follows from the request alone"

    run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)
