"""The real etcd of a shoot answers its kube-apiserver and nobody else, also while certificates are exchanged."""

from __future__ import annotations

import time
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.api.core import SECRET
from espalier.api.resource import Key
from espalier.cli.local.environment.garden.migration_scenario import TECHNICAL_ID
from espalier.cli.local.environment.seed_processes.network import TcpEndpoint
from espalier.etcd.client import connect
from espalier.etcd.credentials import TlsFiles
from espalier.etcd.errors import EtcdError
from espalier.kube.errors import KubeError
from espalier.shoots.secrets import peers
from espalier.shoots.secrets.names import CA_ETCD_PEER
from espalier.shoots.secrets.persisted import Data
from tests.support.etcd.peer_secrets import PeerSecrets
from tests.support.gardens.etcd_ports import (
    PLAIN,
    SECURE,
    Port,
    of_an_earlier_gardenlet,
    pods_are,
    port_in,
    ports_seen,
    reconcile,
)
from tests.support.gardens.real_shoots import RealShoot, real_shoot
from tests.support.waiting import eventually

pytestmark = pytest.mark.envtest


@pytest.mark.soak
async def test_etcd_of_earlier_gardenlet_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_an_earlier_gardenlet(monkeypatch)
    async with real_shoot(tmp_path) as shoot:
        seed = shoot.seed("east").client
        assert await pods_are(seed, PLAIN)
        assert await answers(shoot, None)
        monkeypatch.undo()
        began = time.monotonic()
        async with ports_seen(seed, every=0.05) as seen:
            await reconcile(shoot.garden.client)
            await eventually(lambda: pods_are(seed, SECURE), within=400, told=shoot.logs)
        assert seen == [PLAIN, Port(True, True, "http"), Port(True, True, "https"), SECURE]
        await eventually(shoot.scenario.writer.changed, lambda changed: changed == [], despite=KubeError)
        await eventually(lambda: not shoot.scenario.writer.last_error)
        upgraded = shoot.scenario.writer.gap(began, time.monotonic())

        before = await secrets(shoot)
        own, member = client_of(before), member_of(before)
        other = PeerSecrets(now=datetime.now(UTC), rng=None)
        other.start()
        authority = own[peers.TRUSTED]
        assert await eventually(lambda: answers(shoot, files(tmp_path, own, authority)))
        assert await answers(shoot, files(tmp_path, member, authority))
        assert not await answers(shoot, None)
        assert not await answers(shoot, files(tmp_path, None, authority))
        assert not await answers(shoot, files(tmp_path, client_of(other.secrets), authority))

        began = time.monotonic()
        await seed.delete(SECRET, CA_ETCD_PEER, TECHNICAL_ID)

        async def is_renewed() -> bool:
            now = await secrets(shoot)
            is_new = CA_ETCD_PEER in now and now[CA_ETCD_PEER]["ca.crt"] != before[CA_ETCD_PEER]["ca.crt"]
            return is_new and len(now) == 3 and client_of(now)[peers.TRUSTED] == now[CA_ETCD_PEER]["ca.crt"]

        await eventually(is_renewed, within=400, told=shoot.logs)
        await eventually(lambda: pods_are(seed, SECURE), within=200, told=shoot.logs)
        await eventually(shoot.scenario.writer.changed, lambda changed: changed == [], despite=KubeError)
        await eventually(lambda: not shoot.scenario.writer.last_error)
        renewed = shoot.scenario.writer.gap(began, time.monotonic())
        assert not await answers(shoot, files(tmp_path, own, member_of(await secrets(shoot))[peers.TRUSTED]))

        good = await shoot.scenario.move("west", "")
        assert (good.lost, good.left) == (0, ())
        assert await shoot.scenario.writer.changed() == []
        assert await port_in(shoot.seed("west").client) == SECURE
        with capsys.disabled():
            print(f"\nAPI gap {upgraded:.1f} s to certificates, {renewed:.1f} s in a renewal of authorities")


async def secrets(shoot: RealShoot) -> dict[str, Data]:
    """Those of etcd's authorities, members and client."""
    listed = (await shoot.seed("east").client.list(SECRET, TECHNICAL_ID)).items
    results = {secret.name: secret.tree["data"] for secret in listed if peers.is_of_peers(secret.name)}
    return {name: {key: b64decode(text) for key, text in data.items()} for name, data in results.items()}


def client_of(value: dict[str, Data]) -> Data:
    return next(data for name, data in value.items() if name.startswith("etcd-client-"))


def member_of(value: dict[str, Data]) -> Data:
    return next(data for name, data in value.items() if name.startswith("etcd-peer-"))


def files(folder: Path, data: Data | None, authority: bytes) -> TlsFiles:
    """The files of a client that trusts these authorities; None: it has no certificate."""
    paths = {name: folder / name for name in (peers.TRUSTED, peers.CERTIFICATE, peers.KEY)}
    for name, content in {**(data or {}), peers.TRUSTED: authority}.items():
        (folder / name).write_bytes(content)
    if data is None:
        return TlsFiles(paths[peers.TRUSTED], server_name="localhost")
    return TlsFiles(paths[peers.TRUSTED], paths[peers.CERTIFICATE], paths[peers.KEY], server_name="localhost")


async def answers(shoot: RealShoot, tls: TlsFiles | None) -> bool:
    """True if the port of etcd in its pod answers a client with these files; None: without TLS."""
    endpoint = shoot.seed("east").cluster.connect(Key(TECHNICAL_ID, "etcd-main-client"), 2379, TcpEndpoint)
    scheme = "http" if tls is None else "https"
    async with connect(f"{scheme}://127.0.0.1:{endpoint.port}", tls=tls, timeout=2) as client:
        try:
            return (await client.status()).header.revision > 0
        except EtcdError:
            return False
