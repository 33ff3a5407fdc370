"""Every rule of a Cluster as people meet it: `kubectl apply` of a manifest to a real API server, and what it says.

The cases are those of the rules' own tests. What only the webhook knows and what the definition already refuses read
alike here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from espalier.api.meta import Tree
from espalier.simulator.stores import MemoryStores
from tests.journeys.asking import NAMESPACE, AccountedClusters
from tests.support.control_plane import ControlPlane
from tests.support.kubectl import Kubectl
from tests.support.real_api_server import delete_all, managed_on
from tests.unit.clusters.asked import edited
from tests.unit.clusters.test_admission import CHANGED, WRONG
from tests.unit.clusters.test_versions import STEPS, VERSION, VERSIONS

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

SKEW = {
    "v0.25.1": "v0.25.1 is one minor version behind the management cluster laptop (v0.26.0)",
    "v0.24.2": "v0.24.2 is 2 minor versions behind",
}
"""Warnings by release."""
APPLY = ("apply", "--server-side", "--field-manager=kubectl", "--dry-run=server", "-f", "-")
"""As the author of the clusters here, so that a field that is left out is taken away."""


def written(tree: Tree) -> str:
    """The manifest of a Cluster, as its author has it."""
    metadata = {name: value for name, value in tree["metadata"].items() if name in ("name", "annotations")}
    text: str = yaml.safe_dump({**tree, "metadata": metadata | {"namespace": NAMESPACE}})
    return text


@asynccontextmanager
async def admission(control_plane: ControlPlane, folder: Path) -> AsyncIterator[tuple[AccountedClusters, Kubectl]]:
    """A manager that answers, and kubectl."""
    async with managed_on(control_plane, MemoryStores()) as env:
        yield env, Kubectl(control_plane.kubectl, control_plane.kubeconfig, folder)


async def complaint(kubectl: Kubectl, manifest: Tree) -> str:
    """What kubectl says when it is refused, on one line; the server would have stored it otherwise."""
    code, output, said = await kubectl.finish(*APPLY, stdin=written(manifest))
    assert code != 0, f"accepted: {output}"
    return " ".join(said.split())


async def test_every_wrong_field_of_a_new_cluster_is_reported(control_plane: ControlPlane, tmp_path: Path) -> None:
    # This Cluster API makes external etcd.
    wrong = [one for one in WRONG if "spec.externalEtcdConfiguration" not in one[0]]
    cases: list[tuple[dict[str, Any], str]] = [(edits, sentence) for edits, _, sentence in wrong]
    cases += [({VERSION: version}, sentence) for version, sentence in VERSIONS if sentence]
    async with admission(control_plane, tmp_path) as (_, kubectl):
        said = [(edits, sentence, await complaint(kubectl, edited(edits))) for edits, sentence in cases]
        accepted = await kubectl(*APPLY, stdin=written(edited({})))
        for release, warning in SKEW.items():
            manifest = written(edited({VERSION: release}))
            _, _, warnings = await kubectl.finish(*APPLY, stdin=manifest)
            assert warning in warnings
    assert [one for one in said if one[1] not in one[2]] == []
    assert "garden serverside-applied" in accepted


async def test_every_change_that_is_not_allowed_is_reported(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with admission(control_plane, tmp_path) as (env, kubectl):
        await env.apply(eksaVersion="v0.26.0")
        await env.until_ready()
        for edits, field, sentence in CHANGED:
            manifest = edited(edits)
            if field is not None:
                assert sentence in await complaint(kubectl, manifest)
            else:
                await kubectl(*APPLY, stdin=written(manifest))
        await delete_all(env)


async def test_releases_are_taken_one_minor_at_a_time(control_plane: ControlPlane, tmp_path: Path) -> None:
    releases = dict.fromkeys(before for before, _, _ in STEPS if before.startswith("v"))
    async with admission(control_plane, tmp_path) as (env, kubectl):
        for number, before in enumerate(releases):
            name = f"garden-{number}"
            await env.apply(name=name, eksaVersion=before)
            for earlier, after, sentence in STEPS:
                manifest = edited({VERSION: after, "metadata.name": name})
                if earlier == before and sentence:
                    assert sentence in await complaint(kubectl, manifest)
        await delete_all(env)
