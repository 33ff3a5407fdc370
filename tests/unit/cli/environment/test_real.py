import os
import shutil
import sys
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from espalier.api.eksa.upgrades import FrontEnd
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.local.environment import real
from espalier.cli.local.environment.real import ADDRESSES, RealSettings, check, retry_untrusted
from espalier.cli.local.up import ApiServer, Nodes, fit
from espalier.kube.errors import ServerFailure, Status
from espalier.realnodes.nspawn.system import network
from espalier.realnodes.nspawn.system.addresses import AddressRange, Occupied
from espalier.realnodes.nspawn.system.state import NetworkRecord, State

ELSEWHERE = "10.213.77.0/24"
HERE = RealSettings(ELSEWHERE, bridge="esp-tested")
"""With a bridge of a name that no environment has: others may run real nodes on this machine."""
looks = pytest.mark.skipif(shutil.which("ip") is None, reason="interfaces are asked for by ip, of iproute2")


async def nothing() -> list[Occupied]:
    return []


async def reasons(settings: RealSettings, state: State) -> str:
    with pytest.raises(Failure) as refused:
        await check(settings, state)
    return str(refused.value)


async def test_lacks_for_real_nodes_are_reported_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool in ("systemd-nspawn", "nsenter") else f"/bin/{tool}")
    messages = await reasons(HERE, State(tmp_path))
    assert "run it as root" in messages
    assert "apt-get install systemd-container util-linux" in messages


async def test_a_range_that_can_not_be_used_is_refused(tmp_path: Path) -> None:
    assert "node addresses '10.0.0.0/8'" in await reasons(RealSettings("10.0.0.0/8"), State(tmp_path))


@looks
async def test_range_with_addresses_of_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def occupied() -> list[Occupied]:
        return [Occupied(IPv4Network("10.213.0.0/16"), "tun0")]

    monkeypatch.setattr(network, "occupied", occupied)
    messages = await reasons(HERE, State(tmp_path))
    assert "tun0 already has 10.213.0.0/16; choose another range with --node-addresses" in messages


@looks
async def test_range_of_existing_nodes_needs_no_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(tmp_path)
    state.write_network(NetworkRecord("esp-tested", ELSEWHERE))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "ip" else f"/bin/{tool}")
    messages = await reasons(RealSettings("", bridge="esp-tested"), state)
    assert messages == "real nodes are not possible here: programs are missing: apt-get install iproute2"
    monkeypatch.setattr(shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(network, "occupied", nothing)
    monkeypatch.setattr(real, "occupied", nothing)
    assert str((await check(RealSettings("", bridge="esp-tested"), state)).network) == ELSEWHERE
    state.forget_network()
    assert str((await check(RealSettings("", bridge="esp-tested"), state)).network) == ADDRESSES[0]


@looks
async def test_second_environment_takes_a_free_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def occupied() -> list[Occupied]:
        return [Occupied(IPv4Network("10.77.0.0/24"), "esp0"), Occupied(IPv4Network("10.78.0.0/16"), "tun0")]

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(network, "occupied", occupied)
    monkeypatch.setattr(real, "occupied", occupied)
    assert str((await check(RealSettings("", bridge="esp-tested"), State(tmp_path))).network) == "10.79.0.0/24"


@looks
async def test_second_environment_takes_a_free_bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "BRIDGES", ("lo", "esp-tested"))
    monkeypatch.setattr(network, "occupied", nothing)
    bridge = network.Bridge(State(tmp_path / "nodes"), AddressRange.parse(ELSEWHERE))
    assert (await bridge.claim()).bridge == bridge.name == "esp-tested"
    monkeypatch.setattr(network, "BRIDGES", ("lo",))
    assert (await bridge.claim()).bridge == "esp-tested"  # recorded


@looks
async def test_interface_of_the_name_is_of_other_environment(tmp_path: Path) -> None:
    messages = await reasons(RealSettings(ELSEWHERE, bridge="lo"), State(tmp_path))
    assert "interface lo exists already: another local environment runs real nodes here" in messages
    assert "if its folder is gone, the interface (`ip link delete lo`)" in messages


@looks
async def test_environment_keeps_range_that_its_nodes_have(tmp_path: Path) -> None:
    state = State(tmp_path / "nodes")
    state.write_network(NetworkRecord("esp0", "10.77.0.0/24"))
    assert "addresses of 10.77.0.0/24, not of 10.213.77.0/24" in await reasons(HERE, state)


async def test_another_system_than_linux_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "does not run Linux" in await reasons(HERE, State(tmp_path))


@pytest.mark.parametrize(("nodes", "api_server"), [(Nodes.REAL, ApiServer.EMBEDDED), (Nodes.SIMULATED, ApiServer.REAL)])
def test_unfit_api_server_is_refused(nodes: Nodes, api_server: ApiServer) -> None:
    with pytest.raises(Usage, match=f"--api-server: found {api_server}, allowed with --nodes {nodes}"):
        fit(nodes, api_server)


def test_hooks_need_a_cluster_api_that_calls_them() -> None:
    with pytest.raises(Usage, match="--in-place: found hooks, allowed with --nodes simulated is annotations"):
        fit(Nodes.SIMULATED, None, FrontEnd.HOOKS)
    fit(Nodes.REAL, None, FrontEnd.HOOKS)


UNTRUSTED = (
    'Internal error occurred: failed calling webhook "validate.clusters": certificate signed by unknown authority'
)


@pytest.mark.parametrize(
    ("message", "failures", "written", "attempts"),
    [(UNTRUSTED, 2, True, 3), (UNTRUSTED, 9, False, 5), ("etcdserver: no leader", 1, False, 1)],
    ids=["trusted meanwhile", "never trusted", "another failure"],
)
async def test_write_repeats_until_webhooks_are_trusted(
    message: str, failures: int, written: bool, attempts: int
) -> None:
    made: list[int] = []

    async def write() -> None:
        made.append(len(made))
        if len(made) <= failures:
            raise ServerFailure(Status(message=message, code=500))

    if written:
        await retry_untrusted(write, pause=0, attempts=5)
    else:
        with pytest.raises(ServerFailure, match=message[:20]):
            await retry_untrusted(write, pause=0, attempts=5)
    assert len(made) == attempts


def test_the_version_of_real_nodes_is_chosen_by_row() -> None:
    message = "--kubernetes: found 1.37, allowed with --nodes simulated alone: .* ESPALIER_ROW selects the programs"
    with pytest.raises(Usage, match=message):
        fit(Nodes.REAL, None, kubernetes="1.37")
    fit(Nodes.SIMULATED, None, kubernetes="1.37")
