"""Boot data of real machines in the simulated cloud, and how they resolve names."""

from __future__ import annotations

import json
import struct
from ipaddress import IPv4Address
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.gardener.extensions.operating_system_config import BOOTSTRAP_KUBECONFIG
from espalier.assets.base import Base
from espalier.cli.local.environment.real_machines.machines import COMMANDS, cloud_config, newest_base
from espalier.cli.local.environment.real_machines.name_server import Resolved, answer

ADDRESS, SIX, NAME = 1, 28, "api.shoot--dev--apple.internal.example.com"
KNOWN = {NAME: Resolved(IPv4Address("10.250.0.2"), 7)}


def question(name: str, type_: int = ADDRESS, flags: int = 0x0100) -> bytes:
    labels = b"".join(bytes([len(word)]) + word.encode() for word in name.split("."))
    return struct.pack("!HHHHHH", 4711, flags, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, type_, 1)


def test_name_is_answered_with_the_present_address() -> None:
    response = answer(question(NAME.upper()), KNOWN.get)
    assert response is not None
    id_, flags, _, answers, *_ = struct.unpack_from("!HHHHHH", response)
    assert (id_, flags, answers) == (4711, 0x8500, 1)
    assert response[-14:] == struct.pack("!HHLH", ADDRESS, 1, 7, 4) + bytes([10, 250, 0, 2])


def test_name_without_an_address_of_a_kind_exists() -> None:
    response = answer(question(NAME, SIX), KNOWN.get)
    assert response is not None
    assert struct.unpack_from("!HHHHHH", response)[1:4] == (0x8500, 1, 0)


def test_other_names_are_not_there() -> None:
    response = answer(question("registry.example.com"), KNOWN.get)
    assert response is not None
    assert struct.unpack_from("!HHHHHH", response)[1:4] == (0x8503, 1, 0)


def test_answers_are_not_answered() -> None:
    assert answer(question(NAME, flags=0x8500), KNOWN.get) is None


@given(st.binary(max_size=600) | st.builds(lambda end: question(NAME)[:12] + end, st.binary(max_size=600)))
def test_nothing_that_comes_ends_the_name_server(message: bytes) -> None:
    response = answer(message, lambda _name: None)
    assert response is None or response[:2] == message[:2]


def test_cloud_init_writes_files_and_starts_kubelet() -> None:
    files = [{"path": BOOTSTRAP_KUBECONFIG, "content": "a\nb: '{{ c }}'"}]
    head, _, told = cloud_config(msgspec.json.encode({"files": files})).partition(b"\n")
    assert head == b"#cloud-config"
    document = json.loads(told)
    assert document["write_files"] == [{**files[0], "permissions": "0600"}]
    assert document["runcmd"] == list(COMMANDS)


def test_machine_without_a_cluster_is_no_node() -> None:
    for data in (b"", b"{", b'{"files": [{"path": "/etc/motd", "content": "x"}]}'):
        assert json.loads(cloud_config(data).partition(b"\n")[2])["runcmd"] == []


@pytest.mark.parametrize(
    ("built", "taken"),
    [
        (["1.34.4", "1.36.2", "1.35.9"], "1.36.2"),
        (["1.36.4", "1.33.0"], "1.33.0"),
        (["1.37.0", "1.32.9"], None),
    ],
)
def test_nodes_have_the_newest_allowed_version(built: list[str], taken: str | None) -> None:
    bases = [Base(version, Path(), Path(), {}, "") for version in built]
    result = newest_base(bases, "1.36.3")
    assert (result and result.version) == taken
