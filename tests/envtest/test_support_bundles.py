"""Support bundles of a real API server: bare, with all that a manager needs, and seen by who may read little."""

from __future__ import annotations

import json

import msgspec
import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, POD, SECRET
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.cli.clusters.support import archive
from espalier.cli.clusters.support.reading import Findings, Reader
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.retry import Retry
from tests.support.environments.control_plane import ControlPlane

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

CANARY = "canary7xQz-real"


async def read(control_plane: ControlPlane, acting_as: str = "") -> Findings:
    kubeconfig = Kubeconfig.load([control_plane.kubeconfig])
    access = (kubeconfig.impersonating(acting_as, []) if acting_as else kubeconfig).context()
    client = Client(HttpTransport(access, environment={}), retry=Retry(attempts=1))
    try:
        return await Reader(client, None, lambda _text: None).read()
    finally:
        await client.close()


def packed(findings: Findings) -> dict[str, bytes]:
    return archive.entries(findings, {"of": "all clusters", "madeAt": "now", "espalier": "1"}, 2**20)


async def test_a_real_api_server_is_read(control_plane: ControlPlane) -> None:
    bare = await read(control_plane)
    assert bare.version["gitVersion"].startswith("v1.")
    assert any("clusters" in read.what for read in bare.unread)  # no kinds of ours are served yet

    client = Client(HttpTransport(Kubeconfig.load([control_plane.kubeconfig]).context(), environment={}))
    try:
        await client.create(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
        for kind in (Cluster, EKSARelease):
            await client.create(CUSTOM_RESOURCE_DEFINITION, msgspec.to_builtins(crd_of(kind)))
        metadata = {"name": "credentials", "namespace": SYSTEM_NAMESPACE}
        await client.create(SECRET, {"metadata": metadata, "stringData": {"password": CANARY}})
        container = {"name": "manager", "image": "x", "env": [{"name": "X", "value": f"{CANARY}-2"}]}
        pod = {"name": "manager", "namespace": SYSTEM_NAMESPACE}
        await client.create(POD, {"metadata": pod, "spec": {"containers": [container]}})
    finally:
        await client.close()
    files = packed(await read(control_plane))
    assert CANARY.encode() not in b"".join(files.values())
    assert {"namespace": SYSTEM_NAMESPACE, "name": "credentials", "type": "Opaque"} in json.loads(files["secrets.json"])
    assert json.loads(files["management/pods.json"])[0]["spec"]["containers"] == [{"name": "manager", "image": "x"}]
    unread = [read["what"] for read in json.loads(files["report.json"])["notRead"]]
    assert any(what.startswith("log of container manager") for what in unread)  # nothing runs it


async def test_who_may_read_little_gets_a_bundle(control_plane: ControlPlane) -> None:
    report = json.loads(packed(await read(control_plane, "jane"))["report.json"])
    assert report["apiServer"]["gitVersion"].startswith("v1.")
    assert all("forbidden" in read["error"] for read in report["notRead"])
    assert report["notRead"]
