"""The manager's runtime hooks on a real management cluster: registered by itself, and answered to who trusts it."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import aiohttp
import pytest

from espalier.api.capi.runtime import ExtensionConfig
from espalier.api.eksa.upgrades import RUNTIME_EXTENSION, FrontEnd
from espalier.api.resource import Key
from espalier.upgrades.hooks import wire
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.management import SERVICE_ACCOUNT, production
from tests.support.servers.audit import requests_of
from tests.support.waiting import until

pytestmark = pytest.mark.envtest

FORBIDDEN = 403


async def test_manager_registers_hooks_with_its_given_rights(control_plane: ControlPlane, tmp_path: Path) -> None:
    since = control_plane.audit_log.stat().st_size
    async with production(control_plane, tmp_path, in_place=FrontEnd.HOOKS) as management:
        extensions = management.caches.of(ExtensionConfig.resource)
        key = Key("", RUNTIME_EXTENSION)
        await until(extensions, key, lambda value: value is not None)
        value = extensions.get(key)
        assert value is not None
        client = value.tree["spec"]["clientConfig"]
        trust = ssl.create_default_context(cadata=base64.b64decode(client["caBundle"]).decode())
        async with (
            aiohttp.ClientSession(skip_auto_headers=["Content-Type"]) as session,
            session.post(client["url"] + wire.DISCOVERY_PATH, data=b"{}", ssl=trust) as response,
        ):
            assert (await response.json())["status"] == "Success"
        await management.client.delete(ExtensionConfig.resource, RUNTIME_EXTENSION)
        await until(extensions, key, lambda again: again is not None and again.metadata.uid != value.metadata.uid)
    asked = requests_of(control_plane.audit_log, SERVICE_ACCOUNT, since=since)
    assert [str(item) for item in asked if item.code == FORBIDDEN] == []
