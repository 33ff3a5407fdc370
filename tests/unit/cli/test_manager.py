"""What `espalier manager` refuses before it does anything."""

from __future__ import annotations

import pytest

from espalier.api.eksa.upgrades import FrontEnd
from espalier.cli.failures import Usage
from espalier.cli.manager import manager


async def test_hooks_are_served_beside_webhooks_or_not_at_all() -> None:
    with pytest.raises(Usage, match=r"--in-place hooks: .* give --webhook-address as well"):
        await manager(in_place=FrontEnd.HOOKS, webhook_address="0")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9443", "127.0.0.1:9443", "https://"])
async def test_cluster_api_calls_nothing_but_https(url: str) -> None:
    with pytest.raises(Usage, match=r"--hooks-url: found .*, allowed is https://HOST:PORT"):
        await manager(in_place=FrontEnd.HOOKS, hooks_url=url)
