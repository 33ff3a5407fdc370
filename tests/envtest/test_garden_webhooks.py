"""The configuration of a garden's webhooks on a real API server; one is for a subresource, one for Secrets."""

from __future__ import annotations

import pytest

from espalier.api.core import VALIDATING_WEBHOOK_CONFIGURATION
from espalier.cli.programs.garden_components import webhook_configuration
from tests.support.environments.control_plane import ControlPlane

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("url", ["https://garden.example.com", ""])
async def test_real_api_server_stores_webhooks_unchanged(control_plane: ControlPlane, url: str) -> None:
    client = control_plane.client()
    wanted = webhook_configuration(url)
    stored = await client.create(VALIDATING_WEBHOOK_CONFIGURATION, wanted, dry_run=True)
    assert [webhook["rules"] for webhook in stored.tree["webhooks"]] == [
        webhook["rules"] for webhook in wanted["webhooks"]
    ]
    await client.close()
