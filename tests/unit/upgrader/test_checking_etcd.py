"""Settings of etcd, and old requests in its log, that are refused before etcd 3.7 starts on its data."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from espalier.api.version_matrix import ETCD, KUBERNETES, minor_of
from espalier.upgrader import etcd
from espalier.upgrader.host import StepFailed
from tests.support.environments.simulated_node import Simulated, simulated

MANIFEST = "etc/kubernetes/manifests/etcd.yaml"
LOG = "var/lib/etcd/member/wal"
NEXT = "v3.7.0-eks-1-37-1"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Simulated]:
    with simulated(tmp_path) as made:
        made.host.run(["systemctl", "show", "kubelet.service"])
        yield made


def edit(node: Simulated, text: str) -> None:
    path = node.root / MANIFEST
    path.write_text(path.read_text().replace("    - --data-dir=", f"{text}    - --data-dir="))
    assert text in path.read_text()


def refused(node: Simulated, wanted: str = NEXT) -> str:
    before = node.disk()
    with pytest.raises(StepFailed) as failed:
        etcd.check_etcd(node.node, wanted)
    assert node.disk() == before
    return str(failed.value)


def varint(number: int) -> bytes:
    content = b""
    while number > 0x7F:
        content, number = content + bytes([number & 0x7F | 0x80]), number >> 7
    return content + bytes([number])


def message(**fields: int | bytes) -> bytes:
    """A protobuf message of fields `f<number>`."""
    content = b""
    for name, value in fields.items():
        number = int(name[1:])
        if isinstance(value, int):
            content += varint(number << 3) + varint(value)
        else:
            content += varint(number << 3 | 2) + varint(len(value)) + value
    return content


def record(kind: int, data: bytes) -> bytes:
    content = message(f1=kind, f2=7, f3=data)
    padding = -len(content) % 8
    size = len(content) | ((0x80 | padding) << 56 if padding else 0)
    return struct.pack("<Q", size) + content + bytes(padding)


def entry(index: int, data: bytes) -> bytes:
    return record(2, message(f1=0, f2=2, f3=index, f4=data))


def snapshot(index: int) -> bytes:
    return record(5, message(f1=index, f2=2))


OLD = message(f1=77, f2=b"PUT", f3=b"/0/members/8e9e05c52164694d/attributes", f4=b'{"name":"a"}')
"""As etcd 3.5 publishes a member."""
NEW = message(f100=message(f1=78), f4=message(f1=b"key", f2=b"value"))
"""A put of a later one."""


def log(node: Simulated, *files: tuple[int, bytes], at: str = LOG) -> None:
    """The files of etcd's log: the first index of each, and its records; the rest of a file is empty."""
    folder = node.root / at
    folder.mkdir(parents=True, exist_ok=True)
    for number, (first, content) in enumerate(files):
        (folder / f"{number:016x}-{first:016x}.wal").write_bytes(content + bytes(512))


def test_the_program_crosses_where_the_matrix_does() -> None:
    crossing = ".".join(map(str, etcd.FIRST_WITHOUT))
    assert "experimental-" in ETCD[crossing].removed_flags
    first = next(minor for minor, item in KUBERNETES.items() if minor_of(item.etcd_image) == crossing)
    assert first == f"1.{etcd.FIRST_KUBERNETES}"


@pytest.mark.parametrize(
    ("flag", "successor"),
    [
        ("experimental-initial-corrupt-check=true", "--feature-gates=InitialCorruptCheck=true"),
        ("experimental-corrupt-check-time=1h", "--corrupt-check-time"),
    ],
)
def test_a_flag_that_etcd_no_longer_has_is_named(node: Simulated, flag: str, successor: str) -> None:
    edit(node, f"    - --{flag}\n")
    assert refused(node) == (
        f"/etc/kubernetes/manifests/etcd.yaml has flag --{flag.partition('=')[0]}, and etcd 3.7 does not start with "
        f"it: nothing was changed; remove it from etcd.local.extraArgs, or set what replaces it ({successor})"
    )


def test_a_variable_that_etcd_would_ignore_is_named(node: Simulated) -> None:
    edit(node, "    env:\n    - name: ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME\n      value: 1h\n")
    result = refused(node)
    assert "sets ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME, which etcd 3.7 ignores, so that what it sets is off" in result
    assert result.endswith("or set what replaces it (--corrupt-check-time)")


def test_a_setting_in_a_file_of_etcd_is_named(node: Simulated) -> None:
    edit(node, "    - --config-file=/etc/etcd/etcd.yaml\n")
    result = refused(node)  # there is no such file
    assert "nothing says where the log of etcd is, so that" in result
    assert "wal-dir, or else data-dir, of /etc/etcd/etcd.yaml sets the folder" in result
    path = node.root / "etc/etcd/etcd.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("name: a\nexperimental-initial-corrupt-check: true\n")
    setting = "experimental-initial-corrupt-check"
    assert refused(node).startswith(f"/etc/etcd/etcd.yaml sets {setting}, which etcd 3.7 ignores")


@pytest.mark.parametrize("wanted", ["v3.6.8-eks-1-36-1", "3.6.16-0", ""])
def test_settings_stay_while_etcd_is_3_6(node: Simulated, wanted: str) -> None:
    edit(node, "    - --experimental-initial-corrupt-check=true\n")
    log(node, (0, entry(4, OLD)))
    etcd.check_etcd(node.node, wanted)


def test_an_etcd_that_is_3_7_already_is_not_checked(node: Simulated) -> None:
    log(node, (0, entry(4, OLD)))
    path = node.root / MANIFEST
    path.write_text(path.read_text().replace("etcd:3.6.6-0", "etcd:3.7.0-0"))
    etcd.check_etcd(node.node, NEXT)


def test_old_requests_after_last_snapshot_are_named(node: Simulated) -> None:
    log(node, (0, snapshot(0) + entry(3, NEW) + entry(4, OLD) + entry(5, NEW)))
    result = refused(node)
    assert "/var/lib/etcd/member/wal has requests of etcd 3.5 (the last at index 4) after its last snapshot" in result
    assert "wait until etcd 3.6 has taken a snapshot of its log, which it does after 10000 requests" in result


@pytest.mark.parametrize(
    ("files", "index"),
    [
        ([(0, entry(4, OLD) + snapshot(4) + entry(5, NEW))], 0),
        ([(0, entry(4, OLD) + entry(5, OLD) + snapshot(4))], 5),  # the snapshot was recorded after the next request
        ([(0, entry(4, OLD)), (5, snapshot(3) + entry(5, NEW))], 4),  # in the file before
        ([(0, entry(4, OLD)), (5, entry(5, NEW) + snapshot(5))], 0),
        ([(0, entry(4, OLD) + entry(6, OLD)), (7, snapshot(5) + entry(7, NEW)), (9, entry(9, NEW))], 6),
        ([(0, entry(4, OLD) + record(2, b"\xff\xff") + entry(5, OLD)[:9])], 4),  # the last is being written
        ([(0, b"\x01")], 0),
        ([(0, struct.pack("<Q", 1 << 40))], 0),
    ],
)
def test_a_log_is_read_to_its_last_snapshot(node: Simulated, files: list[tuple[int, bytes]], index: int) -> None:
    log(node, *files)
    assert etcd.last_old_request(list((node.root / LOG).glob("*.wal"))) == index
    if not index:
        etcd.check_etcd(node.node, NEXT)


def configured(node: Simulated, text: str, named: str = "    - --config-file=/etc/etcd/etcd.yaml\n") -> None:
    edit(node, named)
    path = node.root / "etc/etcd/etcd.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)


PLACES: dict[str, Callable[[Simulated], None]] = {
    "flag": lambda node: edit(node, "    - --wal-dir=/srv/wal\n"),
    "quoted flag": lambda node: edit(node, '    - "--wal-dir=/srv/wal"\n'),
    "flag in two words": lambda node: edit(node, "    - --wal-dir\n    - /srv/wal\n"),
    "last of two flags": lambda node: edit(node, "    - --wal-dir=/srv/other\n    - --wal-dir=/srv/wal\n"),
    "variable": lambda node: edit(node, "    env:\n    - name: ETCD_WAL_DIR\n      value: /srv/wal\n"),
    "flag before variable": lambda node: edit(
        node, "    - --wal-dir=/srv/wal\n    env:\n    - name: ETCD_WAL_DIR\n      value: /srv/other\n"
    ),
    "file": lambda node: configured(node, "name: a\ndata-dir: /var/lib/etcd\nwal-dir: '/srv/wal'  # fast\n"),
    "file that a variable names": lambda node: configured(
        node, "wal-dir: /srv/wal\n", "    env:\n    - name: ETCD_CONFIG_FILE\n      value: /etc/etcd/etcd.yaml\n"
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_log_is_read_where_etcd_writes_it(node: Simulated, place: str) -> None:
    PLACES[place](node)
    log(node, (0, entry(4, NEW)))  # an older one, in the usual folder
    log(node, (0, entry(4, OLD)), at="srv/wal")
    assert refused(node).startswith("the log of etcd in /srv/wal has requests of etcd 3.5 (the last at index 4)")


def test_data_of_etcd_in_a_file_is_followed(node: Simulated) -> None:
    """A file takes the place of all flags."""
    configured(node, '{"data-dir": "/srv/etcd"}')
    log(node, (0, entry(4, OLD)), at="srv/etcd/member/wal")
    assert refused(node).startswith("the log of etcd in /srv/etcd/member/wal has requests")


@pytest.mark.parametrize(
    ("flag", "where"),
    [
        ("    - --wal-dir=/srv/wal\n", "/srv/wal"),
        ("    - --wal-dir=wal\n", "wal"),
    ],
)
def test_a_log_that_is_not_there_is_refused(node: Simulated, flag: str, where: str) -> None:
    edit(node, flag)
    log(node, (0, entry(4, NEW)))
    assert refused(node) == (
        f"the log of etcd is not in {where}, so that nobody can tell whether etcd 3.7 starts with it: nothing was "
        "changed; --wal-dir, or else --data-dir, of /etc/kubernetes/manifests/etcd.yaml sets the folder: mount it in "
        "the pod under the path that it has on the node, then delete the pod to retry"
    )


def test_etcd_is_checked_before_anything_is_copied(node: Simulated) -> None:
    log(node, (0, entry(4, OLD)))
    before = node.disk()
    with pytest.raises(StepFailed, match=r"requests of etcd 3\.5"):
        node.step("copy", etcd=NEXT)
    assert node.disk() == before
