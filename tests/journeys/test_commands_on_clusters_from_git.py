"""Commands on a cluster that Flux applies from Git say so, and name the file, instead of fighting with Flux."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from espalier.api.core import NAMESPACE
from espalier.api.eksa.cluster import Cluster
from espalier.api.flux import GIT_REPOSITORY, KUSTOMIZATION, NAME_LABEL, NAMESPACE_LABEL
from espalier.api.meta import Tree
from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.home import Home
from espalier.kube.client import Client, PatchType
from tests.support.environments.environment import CommandResult, LocalEnvironment

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
SCALED = EXAMPLE.replace("count: 2", "count: 3")
FLUX = "flux-system"
PLACE = "127.0.0.1:1/fleet, branch main:"
FOLDER = "clusters/laptop/garden/eksa-system"
FILE = f"change {FOLDER}/eksa-cluster.yaml there"


def by(env: LocalEnvironment, act: Callable[[Client], Awaitable[object]]) -> None:
    async def main() -> None:
        async with connection.connect(flags.Connection(Home(env.home).kubeconfig)) as connected:
            await act(connected.client)

    asyncio.run(main())


async def put_under_git(client: Client) -> None:
    """The objects of Flux, for a repository that nobody reaches, and Flux's labels on the cluster."""
    await client.apply(NAMESPACE, {"metadata": {"name": FLUX}})
    metadata = {"name": FLUX, "namespace": FLUX}
    spec: Tree = {"interval": "1h", "url": "ssh://git@127.0.0.1:1/fleet", "ref": {"branch": "main"}}
    await client.apply(GIT_REPOSITORY, {"metadata": metadata, "spec": spec})
    source = {"kind": "GitRepository", "name": FLUX}
    spec = {"interval": "1h", "path": "./clusters/laptop/garden/eksa-system", "prune": True, "sourceRef": source}
    await client.apply(KUSTOMIZATION, {"metadata": {"name": "garden", "namespace": FLUX}, "spec": spec})
    labels = {"metadata": {"labels": {NAME_LABEL: "garden", NAMESPACE_LABEL: FLUX}}}
    await client.patch(Cluster.resource, "garden", "default", patch=labels, type=PatchType.MERGE)


async def suspend(client: Client, *, suspended: bool = True) -> None:
    patch = {"spec": {"suspend": suspended}}
    await client.patch(KUSTOMIZATION, "garden", FLUX, patch=patch, type=PatchType.MERGE)


async def remove_repository(client: Client) -> None:
    await client.delete(GIT_REPOSITORY, FLUX, FLUX)


async def remove_kustomization(client: Client) -> None:
    await client.delete(KUSTOMIZATION, "garden", FLUX)


def told(result: CommandResult) -> str:
    return " ".join(result.err.split())


def test_a_cluster_from_git_is_changed_there(env: LocalEnvironment) -> None:
    assert env.apply(EXAMPLE, "create", "--timeout", "300s").code == 0
    nowhere = env.apply(SCALED, "upgrade", "--push")
    assert "--push: cluster default/garden does not come from Git: omit the flag" in told(nowhere)
    nowhere = env.apply(EXAMPLE.replace("garden", "orchard"), "create", "--push")
    assert "--push: the management cluster has no Git repository" in told(nowhere)
    by(env, put_under_git)
    assert "found no private key and no known hosts: set EKSA" in told(env.apply(SCALED, "upgrade", "--push"))
    for command, words in (("upgrade", FILE), ("delete", "remove clusters/laptop/garden/eksa-system and the")):
        refused = env.apply(SCALED, command)
        assert refused.code == 1
        assert "Flux applies it by Kustomization flux-system/garden" in told(refused)
        assert f"{PLACE} {words}" in told(refused)
        assert env.apply(SCALED, command, "--dry-run=server").code == 0
    move = ("move", "--to-kubeconfig", str(Home(env.home).kubeconfig), "--cluster", "garden")
    for flag in ((), ("--dry-run",)):
        refused = env.espalier(*move, *flag)
        assert (refused.code, "Set spec.suspend: true of the Kustomization" in told(refused)) == (1, True)
        assert f"and not before, take {FOLDER} and the Kustomization out of" in told(refused)
    by(env, suspend)
    assert "the target is the source itself" in told(env.espalier(*move))
    assert "is suspended, so nobody would apply the commit" in told(env.apply(SCALED, "upgrade", "--push"))
    assert env.apply(SCALED, "upgrade", "--timeout", "300s").code == 0
    by(env, lambda client: suspend(client, suspended=False))
    assert env.apply(EXAMPLE, "upgrade").code == 1
    by(env, remove_repository)
    assert "whose repository can't be read (GitRepository flux-system)" in told(env.apply(SCALED, "upgrade", "--push"))
    by(env, remove_kustomization)
    assert env.espalier("delete", "cluster", "garden").code == 0
