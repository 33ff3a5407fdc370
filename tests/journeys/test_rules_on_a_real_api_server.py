"""Every rule of a Cluster as people meet it: `kubectl apply` of a manifest to a real API server, and what it says.

The cases are those of the rules' own tests. What only the webhook knows and what the definition already refuses read
alike here.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from espalier.api.meta import Tree
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.managed_clusters import NAMESPACE, AccountedClusters
from tests.support.environments.real_api_server import delete_all, managed_on
from tests.support.objects.eksa_versions import STEPS, VERSION, VERSIONS
from tests.support.objects.refused_clusters import CHANGED, WRONG
from tests.support.servers.admission_reviews import edited
from tests.support.servers.kubectl import Kubectl

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


async def are_refused(kubectl: Kubectl, cases: list[tuple[Tree, str]], reason: str = "") -> None:
    """Each with its sentence and reason. One command, because each takes kubectl a quarter of a second of CPU."""
    code, output, message = await kubectl.finish(
        *APPLY, stdin="---\n".join(written(edited(edits)) for edits, _ in cases)
    )
    assert code != 0
    assert output == ""  # nothing would have been stored
    # The second is what it says of an object that is alone.
    complaints = re.split(r"^(?=Error from server|The Cluster )", message, flags=re.MULTILINE)
    refused = [
        " ".join(complaint.split()) for complaint in complaints if complaint.startswith(("Error", "The Cluster"))
    ]
    for (edits, sentence), complaint in zip(cases, refused, strict=True):
        assert sentence in complaint, edits
        assert reason in complaint, edits


async def test_every_wrong_field_of_new_cluster_is_reported(control_plane: ControlPlane, tmp_path: Path) -> None:
    # This Cluster API makes external etcd.
    wrong = [item for item in WRONG if "spec.externalEtcdConfiguration" not in item[0]]
    cases: list[tuple[Tree, str]] = [(edits, sentence) for edits, _, sentence in wrong]
    cases += [({VERSION: version}, sentence) for version, sentence in VERSIONS if sentence]
    async with admission(control_plane, tmp_path) as (_, kubectl):
        await are_refused(kubectl, cases)
        accepted = await kubectl(*APPLY, stdin=written(edited({})))
        for release, warning in SKEW.items():
            manifest = written(edited({VERSION: release}))
            _, _, warnings = await kubectl.finish(*APPLY, stdin=manifest)
            assert warning in warnings
    assert "garden serverside-applied" in accepted


async def test_every_change_that_is_not_allowed_is_reported(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with admission(control_plane, tmp_path) as (env, kubectl):
        await env.apply(eksaVersion="v0.26.0")
        await env.until_ready()
        refused = [(edits, sentence) for edits, field, sentence in CHANGED if field is not None]
        await are_refused(kubectl, refused, "(Forbidden)")  # what is Invalid, Flux with force deletes
        allowed = [written(edited(edits)) for edits, field, _ in CHANGED if field is None]
        await kubectl(*APPLY, stdin="---\n".join(allowed))
        await delete_all(env)


async def test_releases_are_taken_one_minor_at_a_time(control_plane: ControlPlane, tmp_path: Path) -> None:
    releases = dict.fromkeys(before for before, _, _ in STEPS if before.startswith("v"))
    async with admission(control_plane, tmp_path) as (env, kubectl):
        for number, before in enumerate(releases):
            name = f"garden-{number}"
            await env.apply(name=name, eksaVersion=before)
            steps = [(after, sentence) for earlier, after, sentence in STEPS if earlier == before and sentence]
            await are_refused(kubectl, [({VERSION: after, "metadata.name": name}, message) for after, message in steps])
        await delete_all(env)
