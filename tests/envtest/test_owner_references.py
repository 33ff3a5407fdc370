"""With admission plugin OwnerReferencesPermissionEnforcement the manager's declared rights suffice, and are needed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from tests.support.environments.control_plane import PATIENCE, ControlPlane
from tests.support.environments.management import SERVICE_ACCOUNT, Production, production
from tests.support.histories import kubectl_story as story
from tests.support.servers.audit import following, requests_of

pytestmark = pytest.mark.envtest

FORBIDDEN = 403
IN_PLACE = {"type": "InPlace"}
Tree = dict[str, Any]


async def test_cluster_lives_on_the_declared_rights(control_plane: ControlPlane, tmp_path: Path) -> None:
    since = control_plane.audit_log.stat().st_size
    async with production(control_plane, tmp_path) as management:
        before = await story.inventory(management)
        await apply(management, workers=1)
        await apply(management, workers=2)
        machines = await uids(management)
        assert len(machines) == 3
        await story.begin_upgrade(management)
        await ready(management)
        assert await story.nodes(management) == [story.VERSIONS["1.36"]] * 3
        assert await uids(management) == machines, "they were upgraded in place"
        await story.delete(management)
        await story.nothing_is_left(management, before)
    asked = requests_of(control_plane.audit_log, SERVICE_ACCOUNT, since=since)
    assert any(item.is_write and item.target.resource == "nodeupgrades" for item in asked)
    assert [str(item) for item in asked if item.code == FORBIDDEN] == []


async def test_owner_is_blocked_only_with_a_right_on_it(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with production(control_plane, tmp_path) as management:
        await apply(management, workers=1)
        machines = await uids(management)
        since = control_plane.audit_log.stat().st_size
        await management.kubectl("apply", "-f", "-", stdin=roles(management, without="/finalizers"))
        await story.begin_upgrade(management)
        await refused(management, since, "controlplaneupgrades")
        await management.kubectl("apply", "-f", "-", stdin=roles(management))
        await ready(management)
        assert await story.nodes(management) == [story.VERSIONS["1.36"]] * 2
        assert await uids(management) == machines
        await story.delete(management)


@pytest.mark.soak
async def test_owner_is_set_only_with_a_right_to_delete(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with production(control_plane, tmp_path) as management:
        since = control_plane.audit_log.stat().st_size
        await management.kubectl("apply", "-f", "-", stdin=roles(management, without="dockerdatacenterconfigs delete"))
        await management.kubectl("apply", "-f", "-", stdin=manifest(1))
        await refused(management, since, "dockerdatacenterconfigs")
        await management.kubectl("apply", "-f", "-", stdin=roles(management))
        await ready(management)
        await story.delete(management)


def manifest(workers: int) -> str:
    """A control plane node and workers, to be upgraded in place."""
    documents = list(yaml.safe_load_all(story.EXAMPLE.read_text()))
    spec = documents[0]["spec"]
    spec["controlPlaneConfiguration"]["upgradeRolloutStrategy"] = IN_PLACE
    spec["workerNodeGroupConfigurations"][0] |= {"count": workers, "upgradeRolloutStrategy": IN_PLACE}
    return str(yaml.safe_dump_all(documents))


def roles(management: Production, without: str = "") -> str:
    """The manager's roles as they are installed; `without` rights whose "RESOURCE VERB" has this text."""
    results = [tree for tree in yaml.safe_load_all(management.manifests) if tree["kind"] in ("ClusterRole", "Role")]
    if without:
        for tree in results:
            tree["rules"] = [
                rule | {"resources": [resource], "verbs": [verb]}
                for rule in tree["rules"]
                for resource in rule.get("resources", ())
                for verb in rule["verbs"]
                if without not in f"{resource} {verb}"
            ]
    return str(yaml.safe_dump_all(results))


async def apply(management: Production, *, workers: int) -> None:
    """Apply the manifest, and wait until the cluster is so."""
    await management.kubectl("apply", "-f", "-", stdin=manifest(workers))
    await ready(management)


async def ready(management: Production) -> None:
    """Wait until the cluster is as it was asked for last."""
    await management.kubectl("wait", "--for=condition=Ready", story.GARDEN, f"--timeout={PATIENCE:.0f}s")


async def uids(management: Production) -> dict[str, str]:
    """Uids of Machines, by name."""
    result = (await management.kubectl.tree("machines.cluster.x-k8s.io", "-n", SYSTEM_NAMESPACE))["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in result}


async def refused(management: Production, since: int, resource: str) -> None:
    """Wait until the manager was forbidden to write such an object."""
    async with asyncio.timeout(PATIENCE), following(management.control_plane.audit_log, since=since) as requests:
        async for asked in requests:
            if asked.user.username == SERVICE_ACCOUNT and asked.is_write and asked.code == FORBIDDEN:
                assert asked.target.resource == resource, str(asked)
                return
