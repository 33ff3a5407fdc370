"""The real control plane that tests lean on: does it do what they take for granted?"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from espalier.api.core import CONFIG_MAP, NAMESPACE, SECRET, SERVICE_ACCOUNT
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import Forbidden
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request
from tests.support.child_process import ChildFailed
from tests.support.environments.control_plane import ControlPlane, find_assets, real_control_plane, why_no_assets
from tests.support.servers.widgets import gone

pytestmark = pytest.mark.envtest

PATIENCE = 300.0


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", **metadata}}


async def test_kubectl_reads_and_writes(control_plane: ControlPlane) -> None:
    assert "namespace/kube-system" in await control_plane.run_kubectl("get", "namespaces", "-o", "name")
    manifest = msgspec.json.encode(config_map("from-kubectl") | {"data": {"greeting": "hello"}})
    await control_plane.run_kubectl("apply", "--server-side", "-f", "-", stdin=manifest)
    greeting = await control_plane.run_kubectl("get", "configmap", "from-kubectl", "-o", "jsonpath={.data.greeting}")
    assert greeting == "hello"
    with pytest.raises(ChildFailed, match="NotFound"):
        await control_plane.run_kubectl("get", "configmap", "nobody-made-this")


async def test_token_of_service_account_has_its_rights_only(control_plane: ControlPlane, admin: Client) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "default"}}
    await admin.create(SERVICE_ACCOUNT, account)
    path = "/api/v1/namespaces/default/serviceaccounts/robot/token"
    wanted = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    response = await admin.raw(Request("POST", path, headers={"content-type": "application/json"}, body=wanted))
    token = msgspec.json.decode(response.body)["status"]["token"]

    access = Kubeconfig.of_cluster(
        "test", server=control_plane.url, certificate_authority=control_plane.ca, user="robot", credentials=token
    ).context()
    robot = Client(HttpTransport(access, environment={}))
    try:
        with pytest.raises(Forbidden, match="system:serviceaccount:default:robot"):
            await robot.list(SECRET, "default")
    finally:
        await robot.close()


async def test_dependents_go_with_their_owner(admin: Client) -> None:
    owner = await admin.create(CONFIG_MAP, config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    await admin.create(CONFIG_MAP, config_map("owned", ownerReferences=[reference]))
    await admin.delete(CONFIG_MAP, "owner", "default")
    await gone(admin, CONFIG_MAP, "owned", "default")


async def test_a_namespace_is_emptied_and_goes(admin: Client) -> None:
    await admin.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short-lived"}})
    await admin.create(CONFIG_MAP, config_map("inside", namespace="short-lived"))
    await admin.delete(NAMESPACE, "short-lived")
    await gone(admin, NAMESPACE, "short-lived")


async def test_the_audit_log_distinguishes_writes_from_reads(control_plane: ControlPlane, admin: Client) -> None:
    def made_by_us(resource: str) -> list[str]:
        return [event.verb for event in control_plane.writes() if resource in event.request_uri]

    await admin.create(CONFIG_MAP, config_map("audited"))
    await admin.get(CONFIG_MAP, "audited", "default")
    await admin.list(CONFIG_MAP, "default", fields="metadata.name=audited")
    await admin.delete(CONFIG_MAP, "audited", "default")
    assert made_by_us("/configmaps/audited") == ["delete"]
    assert "admin" in {event.user.username for event in control_plane.writes() if event.verb == "create"}
    assert len(control_plane.requests()) > len(control_plane.writes())


async def test_nothing_is_left_when_it_stops(tmp_path: Path) -> None:
    assets = find_assets()
    if assets is None:
        pytest.skip(why_no_assets())
    async with real_control_plane(tmp_path, assets) as running:
        numbers = [report.pid for report in running.supervisor.reports if report.pid]
        port = int(running.url.rpartition(":")[2])
    assert len(numbers) == 3
    for number in numbers:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
    with socket.create_server(("127.0.0.1", port)):  # nobody listens there, nobody holds it
        pass


async def test_same_folder_gives_the_same_objects_again(tmp_path: Path) -> None:
    assets = find_assets()
    if assets is None:
        pytest.skip(why_no_assets())
    async with real_control_plane(tmp_path, assets) as first:
        await first.run_kubectl("create", "configmap", "kept")
        token = (await first.run_kubectl("create", "token", "default")).strip()
    async with real_control_plane(tmp_path, assets) as second:
        assert second.ca == first.ca
        assert await second.run_kubectl("get", "configmap", "kept", "-o", "name") == "configmap/kept\n"
        access = Kubeconfig.of_cluster(
            "test", server=second.url, certificate_authority=second.ca, user="default", credentials=token
        ).context()
        account = Client(HttpTransport(access, environment={}))
        with pytest.raises(Forbidden, match="system:serviceaccount:default:default"):
            await account.list(SECRET, "default")
        await account.close()
