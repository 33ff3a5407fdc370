"""`espalier manager --dashboard-address`: a real API server decides whose token it is, and what may be seen."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import aiohttp
import pytest

from espalier.api.core import SECRET, Secret
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.runtime.servers.certificates import SECRET_NAME
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.management import Production, production
from tests.support.servers.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.envtest

TENANTS = ("orchard", "meadow")
EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
  - {apiGroups: [anywhere.eks.amazonaws.com], resources: ["*"], verbs: [get, list, watch]}
"""


class Visitor:
    """Requests to the dashboard, each with a token."""

    def __init__(self, session: aiohttp.ClientSession, origin: str) -> None:
        self._session, self._origin = session, origin

    async def get(self, path: str, token: str, **headers: str) -> tuple[int, str]:
        sent = {"Authorization": f"Bearer {token}", **{name.replace("_", "-"): text for name, text in headers.items()}}
        async with self._session.get(f"{self._origin}{path}", headers=sent) as response:
            return response.status, await response.text()

    async def shows(self, path: str, token: str, text: str, **headers: str) -> str:
        _, page = await eventually(lambda: self.get(path, token, **headers), lambda value: text in value[1])
        return page


async def authority_of(management: Production) -> ssl.SSLContext:
    secret = (await management.client.get(SECRET, SECRET_NAME, SYSTEM_NAMESPACE)).decode(Secret)
    return ssl.create_default_context(cadata=secret.data["ca.crt"].decode())


async def test_tenants_see_their_own_by_the_manager(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with production(control_plane, tmp_path) as management:
        await management.stop()
        port, kubectl = free_port(), management.kubectl
        management.flags = (*management.flags, "--dashboard-address", f"127.0.0.1:{port}")
        await management.start()
        tokens = {}
        for tenant in TENANTS:
            await kubectl("create", "namespace", tenant)
            made = EXAMPLE.replace("name: garden", f"name: of-{tenant}")
            await kubectl("-n", tenant, "apply", "-f", "-", stdin=f"{made}---{ROLE}")
            await kubectl("-n", tenant, "create", "serviceaccount", "viewer")
            account = f"--serviceaccount={tenant}:viewer"
            await kubectl("-n", tenant, "create", "rolebinding", "viewer", "--role=reader", account)
            tokens[tenant] = (await kubectl("-n", tenant, "create", "token", "viewer")).strip()
        connector = aiohttp.TCPConnector(ssl=await authority_of(management))
        async with aiohttp.ClientSession(connector=connector) as session:
            visitor = Visitor(session, f"https://localhost:{port}")
            for tenant, other in (TENANTS, TENANTS[::-1]):
                page = await visitor.shows(f"/in/{tenant}/", tokens[tenant], f"c/{tenant}/of-{tenant}")
                assert f"of-{other}" not in page
                assert f"system:serviceaccount:{tenant}:viewer" in page
                for path in ("/", f"/in/{other}/"):
                    refused = await visitor.shows(
                        path,
                        tokens[tenant],
                        "you may not list",
                        Impersonate_User="admin",
                        Impersonate_Group="system:masters",
                    )
                    assert f"of-{other}" not in refused
                    assert f"of-{tenant}" not in refused
            assert (await visitor.get("/", "not-a-token"))[0] == 401
            assert (await visitor.get("/", base64.b64encode(b"x" * 300).decode()))[0] == 401
            # A page that is open when its ServiceAccount goes is closed.
            tenant = TENANTS[0]
            page = await visitor.shows(f"/in/{tenant}/", tokens[tenant], f"c/{tenant}/of-{tenant}")
            number = page.partition('data-number="')[2].partition('"')[0]
            url = f"https://localhost:{port}/in/{tenant}/events/fleet?since={number}"
            async with session.get(url, headers={"Authorization": f"Bearer {tokens[tenant]}"}) as stream:
                assert stream.status == 200
                await kubectl("-n", tenant, "delete", "serviceaccount", "viewer")
                assert b"event: reload" in await stream.read()
            status, page = await visitor.get(f"/in/{tenant}/", tokens[tenant])
            assert (status, f"of-{tenant}" in page) == (401, False)
            assert "refuses your token, which may have ended" in page
        for tenant in TENANTS:
            await kubectl("delete", "namespace", tenant, "--wait=false")
        assert management.manager is not None
        logged = management.manager.output.read_text()
        assert not [tenant for tenant, token in tokens.items() if token in logged]
