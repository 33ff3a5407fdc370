"""A CSV file of bare metal becomes objects, or a list of its wrong cells, each with its place."""

from __future__ import annotations

import base64

import pytest

from espalier.api.manifests.schema import violations
from espalier.api.text.violations import ManifestError
from espalier.providers.tinkerbell.hardware.inventory import MOST_BYTES, MOST_LINES, MOST_SHOWN, read
from espalier.providers.tinkerbell.hardware.manifest import manifest
from espalier.providers.tinkerbell.hardware_kinds import KINDS

CELLS = {
    "hostname": "worker-1",
    "mac": "3C:EC:EF:45:67:89",
    "ip_address": "192.0.2.11",
    "netmask": "255.255.255.0",
    "gateway": "192.0.2.1",
    "nameservers": "192.0.2.2|192.0.2.3",
    "labels": "type=worker|rack=7",
    "disk": "/dev/sda",
    "bmc_ip": "192.0.2.111",
    "bmc_username": "admin",
    "bmc_password": "a-canary-of-the-bmc",
    "vlan_id": "",
}
OTHER = {"hostname": "worker-2", "mac": "3c:ec:ef:45:67:8a", "ip_address": "192.0.2.12", "bmc_ip": "192.0.2.112"}


def file(*lines: dict[str, str]) -> bytes:
    """The columns above, and a line for each machine, which differs from the one above in these cells."""
    rows = [CELLS, *(CELLS | line for line in lines)]
    return "\n".join(",".join(row) for row in [list(CELLS), *(list(row.values()) for row in rows[1:])]).encode()


def wrong(data: bytes) -> list[str]:
    """The problems of a file."""
    with pytest.raises(ManifestError) as raised:
        read(data, "hardware.csv")
    return [str(problem) for problem in raised.value.problems]


def test_machine_becomes_hardware_with_its_bmc() -> None:
    (secret, bmc, hardware), warnings = manifest(file({}), "hardware.csv")
    assert warnings == ()
    assert hardware["metadata"] == {
        "name": "worker-1",
        "namespace": "eksa-system",
        "labels": {"type": "worker", "rack": "7"},
    }
    spec = hardware["spec"]
    assert spec["bmcRef"] == {"apiGroup": "bmc.tinkerbell.org", "kind": "Machine", "name": "bmc-worker-1"}
    assert spec["disks"] == [{"device": "/dev/sda"}]
    (interface,) = spec["interfaces"]
    assert interface["netboot"] == {"allowPXE": True, "allowWorkflow": True}
    assert interface["dhcp"] == {
        "arch": "x86_64",
        "hostname": "worker-1",
        "ip": {"address": "192.0.2.11", "family": 4, "gateway": "192.0.2.1", "netmask": "255.255.255.0"},
        "lease_time": 4294967294,
        "mac": "3c:ec:ef:45:67:89",
        "name_servers": ["192.0.2.2", "192.0.2.3"],
        "uefi": True,
    }
    assert spec["metadata"]["instance"]["id"] == "3c:ec:ef:45:67:89"
    assert bmc["spec"]["connection"]["authSecretRef"] == {"name": "bmc-worker-1-auth", "namespace": "eksa-system"}
    assert secret["metadata"]["name"] == "bmc-worker-1-auth"
    assert base64.b64decode(secret["data"]["password"]) == b"a-canary-of-the-bmc"


def test_generated_objects_match_the_schemas() -> None:
    kinds = {kind.resource.kind: kind for kind in KINDS}
    made, _ = manifest(file({"vlan_id": "12"}), "hardware.csv")
    assert [violations(kinds[tree["kind"]], tree) for tree in made if tree["kind"] in kinds] == [[], []]


def test_a_machine_without_a_bmc_has_none() -> None:
    made, _ = manifest(file({"bmc_ip": "", "bmc_username": "", "bmc_password": "", "vlan_id": "12"}), "hardware.csv")
    assert [tree["kind"] for tree in made] == ["Hardware"]
    assert "bmcRef" not in made[0]["spec"]
    assert made[0]["spec"]["interfaces"][0]["dhcp"]["vlan_id"] == "12"


def test_files_written_by_spreadsheets_are_read() -> None:
    data = file({"bmc_password": '" a ""b"", c"', "mac": " 3C:EC:EF:45:67:89 "}).replace(b"\n", b"\r\n")
    head, _, line = (b"\xef\xbb\xbf" + data + b"\r\n\r\n").partition(b"\r\n")
    (entry,) = read(head.replace(b"hostname", b"Hostname") + b"\r\n" + line, "hardware.csv").entries
    assert entry.mac == "3c:ec:ef:45:67:89"
    assert entry.bmc is not None
    assert entry.bmc.password == ' a "b", c'


@pytest.mark.parametrize(
    ("name", "cell", "column"),
    [
        ("hostname", "Worker_1", 1),
        ("hostname", "a" * 64, 1),
        ("hostname", ".".join(["a" * 60] * 5), 1),
        ("mac", "3c:ec:ef:45:67", 10),
        ("mac", "3c-ec-ef-45-67-89", 10),
        ("mac", "ff:ff:ff:ff:ff:ff", 10),
        ("mac", "00:00:00:00:00:00", 10),
        ("ip_address", "192.0.2.300", 28),
        ("ip_address", "127.0.0.1", 28),
        ("ip_address", "255.255.255.255", 28),
        ("ip_address", "192.0.2.0", 28),
        ("ip_address", "192.0.2.255", 28),
        ("gateway", "192.0.2.255", 53),
        ("ip_address", "2001:db8::1", 28),
        ("netmask", "255.0.255.0", 39),
        ("netmask", "24", 39),
        ("gateway", "192.0.3.1", 53),
        ("gateway", "192.0.2.11", 53),
        ("nameservers", "192.0.2.2,", 63),
        ("nameservers", "192.0.2.2|dns", 63),
        ("labels", "type", 83),
        ("labels", "type=a|type=b", 83),
        ("labels", "ty pe=a", 83),
        ("labels", "a/b/c=a", 83),
        ("labels", "v1alpha1.tinkerbell.org/ownerName=mine", 83),
        ("disk", "sda", 102),
        ("disk", "/dev/../etc/passwd", 102),
        ("disk", "/dev/sda;reboot", 102),
        ("bmc_ip", "bmc.example.com", 111),
        ("bmc_username", "", 123),
        ("bmc_username", "a" * 1025, 123),
        ("vlan_id", "4095", 149),
        ("vlan_id", "0", 149),
        ("vlan_id", "9" * 5000, 149),
        *((name, "", 0) for name in ("hostname", "mac", "ip_address", "netmask", "gateway", "labels", "disk")),
    ],
)
def test_an_invalid_cell_is_named_with_line_and_column(name: str, cell: str, column: int) -> None:
    (first, *_) = wrong(file({name: f'"{cell}"' if "," in cell else cell}))
    assert first.startswith(f"hardware.csv:2:{column or ''}")
    assert f": {name}: " in first


def test_all_invalid_cells_are_named_at_once() -> None:
    problems = wrong(file({"mac": "x", "disk": "sda"}, OTHER | {"vlan_id": "many", "gateway": ""}))
    assert [hardware.split(": ")[1] for hardware in problems] == ["mac", "disk", "gateway", "vlan_id"]


@pytest.mark.parametrize(
    ("name", "kind"), [("hostname", "hostname"), ("mac", "mac"), ("ip_address", "address"), ("bmc_ip", "address")]
)
def test_a_conflict_between_two_machines_is_named(name: str, kind: str) -> None:
    (problems,) = wrong(file({}, OTHER | {name: CELLS[name]}))
    assert problems.startswith("hardware.csv:3:")
    assert f"{name}: line 2 has the same {kind}; it must be unique" in problems


def test_a_mac_in_capitals_is_the_same() -> None:
    (problems,) = wrong(file({}, OTHER | {"mac": CELLS["mac"].lower()}))
    assert "mac: line 2 has the same mac" in problems


def test_a_bmc_has_no_address_of_a_machine() -> None:
    (problems,) = wrong(file({}, OTHER | {"bmc_ip": OTHER["ip_address"]}))
    assert "bmc_ip: line 3 has the same address" in problems


@pytest.mark.parametrize("cell", ["hunter2,hunter2", 'hunter2"hunter2', "hunter2\thunter2", "hunter2" * 200])
@pytest.mark.parametrize("others", [{}, {"bmc_ip": "hunter3"}, {"bmc_username": ""}, {"mac": ""}])
def test_passwords_are_in_no_message(cell: str, others: dict[str, str]) -> None:
    try:
        text = repr(read(file(others | {"bmc_password": cell}), "hardware.csv"))
    except ManifestError as error:
        text = str(error)
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty; expected a header (hostname, mac"),
        (b"\n\n , \n", "the file is empty"),
        (b"\xff", "not text in UTF-8"),
        (file(), "the file has no machines"),
        (b" " * (MOST_BYTES + 1), f"the limit is {MOST_BYTES}"),
        (b"a\n" * (MOST_LINES + 2), f"the limit is {MOST_LINES} machines"),
        (b"hostname,hostname\n", "hostname: duplicate column"),
        (b"hostname,macs\n", "mac: missing column; rename macs to it; found hostname, macs"),
        (file({}).replace(b",", b";"), "hardware.csv:1:1: the cells of a line are separated by another character"),
        (file({}).replace(b",", b"\t"), "found tabs; allowed: commas"),
        (file({}) + b"\nworker-2,x", "wrong number of cells"),
        (file({}) + b'\n"worker-2', "unmatched quotation mark"),
    ],
)
def test_a_file_without_an_inventory_is_refused(data: bytes, message: str) -> None:
    assert message in "\n".join(wrong(data))


def test_an_unreadable_line_hides_no_other() -> None:
    data = file({}, OTHER | {"mac": "x"}).replace(b"worker-1", b'worker"1')
    assert [problem.split(": ")[0] for problem in wrong(data)] == ["hardware.csv:2:1", "hardware.csv:3:10"]


def test_many_invalid_cells_are_counted() -> None:
    problems = wrong(file(*[{"disk": "sda"}] * MOST_SHOWN))
    assert len(problems) == MOST_SHOWN + 1
    assert problems[-1].endswith("more cells are invalid")


def test_ignored_columns_are_named() -> None:
    head, _, line = file({}).partition(b"\n")
    data = head + b",vendor,color,bmc_pasword\n" + line + b",dell,red,x"
    assert read(data, "hardware.csv").warnings == (
        'column "color" is ignored',
        'column "bmc_pasword" is ignored; did you mean bmc_password?',
    )


def test_disks_with_unknown_partitions_are_named() -> None:
    data = file({"disk": "/dev/nvme0n1"}, OTHER | {"disk": "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"})
    (warning,) = read(data, "hardware.csv").warnings
    assert warning.startswith("disk of worker-2: earlier versions of Tinkerbell write files to the disk itself")


def test_values_are_read_within_seconds_however_long() -> None:
    for bomb in (b'"' * 100_000, b" " * 1_000_000 + b'"x', b",\n" * 4000, b'"' + b'""' * 500_000):
        with pytest.raises(ManifestError):
            read(bomb, "hardware.csv")
