"""What `espalier manifests` installs on a real management cluster is enough for `espalier manager`, and no more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml
from tests.journeys import kubectl_story as story
from tests.support.audit import Grant, following, grants, uses
from tests.support.control_plane import ControlPlane
from tests.support.control_plane_fixture import control_plane
from tests.support.management import SERVICE_ACCOUNT, Production, production

__all__ = ["control_plane"]

pytestmark = pytest.mark.envtest

UNUSED: dict[Grant, str] = {}
"""What the journey has no occasion for, and what it is for."""

FORBIDDEN = 403


async def test_the_service_account_has_every_right_that_a_journey_needs_and_no_other(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    since = control_plane.audit_log.stat().st_size
    async with production(control_plane, tmp_path) as management:
        before = await story.inventory(management)
        await story.create(management)
        await story.scale(management)
        await story.begin_upgrade(management)
        await story.upgraded(management)
        await refuses(management)
        await story.delete(management)
        assert await story.inventory(management) - before == set()
        await management.stop()
        granted = set(grants(yaml.safe_load_all(management.manifests)))
        assert not [grant for grant in granted if "*" in "".join(grant)]
        used = await rights_used(control_plane, since, granted - UNUSED.keys())
    assert {str(grant) for grant in granted - used} == {str(grant) for grant in UNUSED}


async def refuses(management: Production) -> None:
    """A manifest that is wrong, and what its author reads."""
    manifest = story.EXAMPLE.read_text().replace("name: garden", "name: orchard")
    wrong = manifest.replace('"1.35"', '"1.29"')
    assert await management.kubectl.refused("apply", "-f", "-", stdin=wrong) == ""


async def rights_used(control_plane: ControlPlane, since: int, awaited: set[Grant]) -> set[Grant]:
    """The grants that the manager used; returns when all that are awaited were used, or nothing more is told."""
    used: set[Grant] = set()
    async with following(control_plane.audit_log, since=since) as requests:
        try:
            async with asyncio.timeout(5):
                async for asked in requests:
                    if asked.user.username == SERVICE_ACCOUNT:
                        assert asked.code != FORBIDDEN, asked
                        used |= uses(asked)
                    if awaited <= used:
                        break
        except TimeoutError:
            pass
    return used
