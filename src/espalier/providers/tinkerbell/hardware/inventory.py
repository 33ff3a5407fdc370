"""The inventory: a CSV file with one line per machine, in the format of EKS Anywhere's CLI."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from espalier.api.text.listing import first
from espalier.api.text.patterns import LABEL_NAME, LABEL_VALUE
from espalier.api.text.violations import ManifestError, Problem, Violation, nearest_name, shown
from espalier.api.trees.yaml_trees import decoded, error_in
from espalier.providers.tinkerbell.hardware_kinds import OWNER_NAME

MOST_BYTES = 8 * 1024 * 1024
MOST_LINES = 10_000
LONGEST_CELL = 1024
MOST_SHOWN = 200
"""The maximum problems that are named; further problems are counted."""

IGNORED = ("id", "vendor")
"""Columns of earlier versions of EKS Anywhere."""


class BMC(NamedTuple):
    """The address and credentials of a baseboard management controller."""

    host: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"BMC({self.host})"


class Entry(NamedTuple):
    """A machine of bare metal."""

    hostname: str
    mac: str
    address: str
    netmask: str
    gateway: str
    nameservers: tuple[str, ...]
    labels: Mapping[str, str]
    disk: str
    bmc: BMC | None = None
    vlan_id: str = ""


class Inventory(NamedTuple):
    """The content of a file."""

    entries: tuple[Entry, ...]
    warnings: tuple[str, ...]
    """About ignored columns, and disks whose partitions not every Tinkerbell knows."""


class _Cell(NamedTuple):
    text: str
    line: int
    column: int


_Row = Sequence[_Cell]


def read(data: bytes, source: str) -> Inventory:
    """The machines of a file. Raises `ManifestError` that names each wrong cell with line and column."""
    if len(data) > MOST_BYTES:
        raise error_in(source, f"the file has {len(data)} bytes; the limit is {MOST_BYTES}")
    file = _File(source)
    rows = [row for row in _rows(decoded(data, source), file) if any(cell.text for cell in row)]
    if len(rows) > MOST_LINES + 1:
        raise error_in(source, f"the file has {len(rows)} lines; the limit is {MOST_LINES} machines")
    if not rows:
        raise error_in(source, f"the file is empty; expected a header ({', '.join(_REQUIRED)}), then machines")
    head, *lines = rows
    lines_of_values: dict[tuple[str, str], int] = {}
    names = _names(head, file)
    entries = [_entry(row, names, lines_of_values, file) for row in lines] if names else []
    if file.problems:
        raise ManifestError(file.shown_problems)
    if not lines:
        raise error_in(source, "the file has no machines; expected a line for each below the header")
    machines = tuple(filter(None, entries))
    return Inventory(machines, (*_unread(names), *_unknown_partitions(machines)))


class _File:
    """A file, and its problems."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.problems: list[Problem] = []

    def add_problem(self, cell: _Cell, field: str, message: str, found: str = "", allowed: str = "") -> None:
        violation = Violation(field, found, allowed, message)
        self.problems.append(Problem(self._source, violation, cell.line, cell.column))

    @property
    def shown_problems(self) -> Sequence[Problem]:
        """The problems in the order of the file."""
        problems = sorted(self.problems, key=lambda problem: (problem.line, problem.column))
        if len(problems) <= MOST_SHOWN:
            return problems
        remaining = Violation("", "", "", f"{first(problems[MOST_SHOWN:], 0, of='cells')} are invalid")
        return [*problems[:MOST_SHOWN], Problem(self._source, remaining)]


# Cells.

_CELL = re.compile(r'[ \t]*+(?:"(?P<quoted>[^"]*(?:""[^"]*)*)"[ \t]*+|(?P<plain>[^",\r\n]*+))(?P<end>,|\r?\n|\r|\Z)')
_LINE_END = re.compile(r"\r?\n|\r")
_QUOTED = 'unmatched quotation mark; quote the whole cell, and write "" for a quotation mark in it'


def _rows(text: str, file: _File) -> Iterator[_Row]:
    """The cells of each line (RFC 4180), without blanks around them. What is between quotation marks stays as it is."""
    row: list[_Cell] = []
    position, line, line_start = 0, 1, 0
    while position < len(text) or row:
        match = _CELL.match(text, position)
        if match is None:
            cell = _Cell("", line, position - line_start + 1)
            file.add_problem(cell, "", _QUOTED)
            end = _LINE_END.search(text, position)
            position, row = (end.end() if end else len(text)), []
            line, line_start = line + 1, position
            continue
        quoted = match["quoted"]
        inner = match["plain"].strip() if quoted is None else quoted.replace('""', '"')
        start = match.start("plain" if quoted is None else "quoted") - (quoted is not None)
        row.append(_Cell(inner, line, start - line_start + 1))
        position = match.end()
        for end in _LINE_END.finditer(text, match.start(), position):
            line, line_start = line + 1, end.end()
        if match["end"] != ",":
            yield row
            row = []


# The line with the names of columns.

_SEPARATORS = {";": "semicolons", "\t": "tabs"}


def _names(head: _Row, file: _File) -> list[str]:
    """The names of columns; empty if they are invalid."""
    before = len(file.problems)
    names = [cell.text.lower() for cell in head]
    separator = next((mark for mark in _SEPARATORS if set(_REQUIRED) <= set(names[0].split(mark))), None)
    if separator:  # what a spreadsheet saves where the comma is the decimal mark, or as text
        message = "the cells of a line are separated by another character; save the file with commas"
        file.add_problem(head[0], "", message, _SEPARATORS[separator], "commas")
        return []
    for index, (name, cell) in enumerate(zip(names, head, strict=True)):
        if name and name in names[:index]:
            file.add_problem(cell, name, "duplicate column; remove one")
    for name in _REQUIRED:
        if name not in names:
            near = nearest_name(name, [column for column in names if column not in _COLUMNS])
            advice = f"rename {near} to it" if near else "add it"
            file.add_problem(head[0], name, f"missing column; {advice}", ", ".join(filter(None, names))[:200])
    return names if len(file.problems) == before else []


def _unread(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name and name not in _COLUMNS and name not in IGNORED:
            near = nearest_name(name, list(_COLUMNS))
            yield f"column {shown(name)} is ignored" + (f"; did you mean {near}?" if near else "")


def _unknown_partitions(entries: Sequence[Entry]) -> Iterator[str]:
    """Function `formatPartition` of Tinkerbell's templates gave the disk itself for others, until it learned them."""
    if names := [entry.hostname for entry in entries if not entry.disk.startswith(_KNOWN_DISKS)]:
        yield (
            f"disk of {first(names, _MOST_NAMES)}: earlier versions of Tinkerbell write files to the disk itself, not "
            f"to its partition, unless its path begins with {', '.join(_KNOWN_DISKS)}; check yours"
        )


_KNOWN_DISKS = ("/dev/sd", "/dev/vd", "/dev/xvd", "/dev/hd", "/dev/nvme")
_MOST_NAMES = 3

# Values: each reader returns None for text that is not allowed.


def _hostname(text: str) -> str | None:
    labels = text.split(".")
    is_name = all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", label) for label in labels)
    return text if is_name and len(text) <= _LONGEST_HOSTNAME else None


_LONGEST_HOSTNAME = 253 - len("bmc--auth")


def _mac(text: str) -> str | None:
    address = text.lower()
    if not re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", address):
        return None
    first_octet = int(address[:2], 16)
    return address if not first_octet & 1 and address != "00:00:00:00:00:00" else None


def _address(text: str) -> str | None:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return None
    is_of_machine = not (address.is_loopback or address.is_multicast or address.is_unspecified or address == _BROADCAST)
    return str(address) if is_of_machine else None


_BROADCAST = ipaddress.IPv4Address("255.255.255.255")


def _netmask(text: str) -> str | None:
    try:
        mask = int(ipaddress.IPv4Address(text))
    except ValueError:
        return None
    inverted = mask ^ 0xFFFFFFFF
    return text if mask and not inverted & (inverted + 1) else None


def _addresses(text: str) -> tuple[str, ...] | None:
    addresses_or_none = [_address(part.strip()) for part in text.split("|")]
    return tuple(filter(None, addresses_or_none)) if all(addresses_or_none) else None


def _labels(text: str) -> Mapping[str, str] | None:
    labels: dict[str, str] = {}
    for pair in text.split("|"):
        name, equals, value = (part.strip() for part in pair.partition("="))
        is_new = name not in labels and not name.startswith(_RESERVED)
        prefix, _, last = name.rpartition("/")
        if not (equals and is_new and re.match(LABEL_NAME, name) and re.match(LABEL_VALUE, value)):
            return None
        if len(prefix) > 253 or len(last) > 63:
            return None
        labels[name] = value
    return labels


_RESERVED = OWNER_NAME.partition("/")[0] + "/"


def _disk(text: str) -> str | None:
    return text if re.fullmatch(r"/dev(/[A-Za-z0-9][A-Za-z0-9._:+@-]*)+", text) else None


def _vlan(text: str) -> str | None:
    return text if re.fullmatch(r"[1-9][0-9]{0,3}", text) and int(text) <= 4094 else None


def _text(text: str) -> str | None:
    return text or None


class _Column(NamedTuple):
    read: Callable[[str], Any]
    allowed: str
    is_required: bool = True
    is_unique: bool = False


_COLUMNS: Mapping[str, _Column] = {
    "hostname": _Column(
        _hostname,
        f"a DNS name of at most {_LONGEST_HOSTNAME} lower-case letters, digits, dashes and dots",
        is_unique=True,
    ),
    "mac": _Column(_mac, "the MAC address of one machine, like 3c:ec:ef:45:67:89", is_unique=True),
    "ip_address": _Column(_address, "an IPv4 address like 192.0.2.11", is_unique=True),
    "netmask": _Column(_netmask, "a mask like 255.255.255.0"),
    "gateway": _Column(_address, "an IPv4 address like 192.0.2.1"),
    "nameservers": _Column(_addresses, "IPv4 addresses separated by |, like 192.0.2.2|192.0.2.3"),
    "labels": _Column(
        _labels,
        f"labels separated by |, like type=worker|rack=7, without duplicates or names in {_RESERVED}",
    ),
    "disk": _Column(_disk, "a device like /dev/sda"),
    "bmc_ip": _Column(_address, "an IPv4 address like 192.0.2.111", is_required=False, is_unique=True),
    "bmc_username": _Column(_text, "a user of the BMC", is_required=False),
    "bmc_password": _Column(_text, "the password of that user", is_required=False),
    "vlan_id": _Column(_vlan, "a number from 1 to 4094", is_required=False),
}
_REQUIRED = tuple(name for name, column in _COLUMNS.items() if column.is_required)
_BMC = ("bmc_ip", "bmc_username", "bmc_password")
_HIDDEN = ("bmc_password",)


# Lines.


def _entry(row: _Row, names: Sequence[str], lines_of_values: dict[tuple[str, str], int], file: _File) -> Entry | None:
    """One machine; None if it is invalid. `lines_of_values` has the lines of unique values."""
    before = len(file.problems)
    if len(row) != len(names):
        message = "wrong number of cells; quote cells that contain a comma"
        file.add_problem(row[0], "", message, f"{len(row)} cells", str(len(names)))
        return None
    cells = dict(zip(names, row, strict=True))
    values: dict[str, Any] = {}
    for name, column in _COLUMNS.items():
        cell = cells.get(name)
        if cell is not None and (value := _value(name, column, cell, file)) is not None:
            values[name] = value
            if column.is_unique:
                _once(name, str(value), cell, lines_of_values, file)
    _judge_network(values, cells, file)
    _judge_bmc(values, cells, file)
    if len(file.problems) > before:
        return None
    return Entry(
        hostname=values["hostname"],
        mac=values["mac"],
        address=values["ip_address"],
        netmask=values["netmask"],
        gateway=values["gateway"],
        nameservers=values["nameservers"],
        labels=values["labels"],
        disk=values["disk"],
        bmc=BMC(*(values[name] for name in _BMC)) if "bmc_ip" in values else None,
        vlan_id=values.get("vlan_id", ""),
    )


def _value(name: str, column: _Column, cell: _Cell, file: _File) -> Any:
    """The value of a cell; None if it is empty or invalid."""
    if not cell.text:
        if column.is_required:
            file.add_problem(cell, name, "must be set for each machine", "nothing", column.allowed)
        return None
    shown_text = "(hidden)" if name in _HIDDEN else shown(cell.text)
    if len(cell.text) > LONGEST_CELL:
        file.add_problem(
            cell, name, f"longer than {LONGEST_CELL} characters", f"{len(cell.text)} characters", column.allowed
        )
        return None
    value = column.read(cell.text)
    if value is None:
        file.add_problem(cell, name, "not allowed", shown_text, column.allowed)
    return value


def _once(name: str, value: str, cell: _Cell, lines_of_values: dict[tuple[str, str], int], file: _File) -> None:
    kind = "address" if name in ("ip_address", "bmc_ip") else name
    if earlier_line := lines_of_values.get((kind, value)):
        file.add_problem(cell, name, f"line {earlier_line} has the same {kind}; it must be unique", value)
    lines_of_values.setdefault((kind, value), cell.line)


def _judge_network(values: Mapping[str, Any], cells: Mapping[str, _Cell], file: _File) -> None:
    """The gateway must be in the network of the address: Linux accepts no other. Neither is all of the network."""
    if not values.keys() >= {"ip_address", "netmask", "gateway"}:
        return
    network = ipaddress.IPv4Interface(f"{values['ip_address']}/{values['netmask']}").network
    address, gateway = values["ip_address"], values["gateway"]
    if network.prefixlen < 31:  # smaller networks have only hosts
        for name in ("ip_address", "gateway"):
            if ipaddress.IPv4Address(values[name]) in (network.network_address, network.broadcast_address):
                message = f"the first and last address of {network} are not those of a host"
                file.add_problem(cells[name], name, message, values[name], f"{network[1]} to {network[-2]}")
    if gateway == address:
        file.add_problem(cells["gateway"], "gateway", "this is the address of the machine itself", gateway)
    elif ipaddress.IPv4Address(gateway) not in network:
        file.add_problem(
            cells["gateway"], "gateway", f"not in the network of ip_address {address}", gateway, str(network)
        )


def _judge_bmc(values: Mapping[str, Any], cells: Mapping[str, _Cell], file: _File) -> None:
    """The fields of a BMC must be set all together, or not at all."""
    set_fields = [name for name in _BMC if name in cells and cells[name].text]
    if not set_fields:
        return
    for name in _BMC:
        if name not in set_fields:
            cell = cells.get(name, cells[set_fields[0]])
            message = f"the line has {' and '.join(set_fields)}; set all three, or none if there is no BMC"
            file.add_problem(cell, name, message, "nothing", _COLUMNS[name].allowed)
