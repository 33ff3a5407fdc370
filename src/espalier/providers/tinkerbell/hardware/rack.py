"""The state of Hardware: which is free, and the problems of each. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Annotated, NamedTuple

import msgspec

from espalier.api import conditions
from espalier.api.core import Secret
from espalier.api.definitions.reference import Annotation, Writer
from espalier.api.eksa.vocabulary.group import GROUP, SYSTEM_NAMESPACE
from espalier.clusters.design import addresses
from espalier.clusters.design.secrets import credentials
from espalier.kube.objects import Object
from espalier.providers.tinkerbell.hardware_kinds import (
    OWNER_NAME,
    BMCMachine,
    BMCRef,
    Hardware,
    HardwareSpec,
)

NAMESPACES: Annotated[
    str,
    Annotation(
        "Hardware in `eksa-system`",
        Writer.USER,
        "Comma-separated namespaces whose Clusters may use the Hardware; without it, all.",
        "set it on the Hardware of tenants, and give that Hardware its own labels (reason `MachineConfigInvalid`)",
    ),
] = f"{GROUP}/hardware-namespaces"

SKIP_CONTACT_CHECK = "bmc.tinkerbell.org/skip-contact-check"
"""Label of a BMC Machine that may be unreachable."""

CONTACTABLE = "Contactable"
LONGEST = 100
"""The maximum characters quoted from a Hardware."""

USER, PASSWORD = "username", "password"


class HardwareState(NamedTuple):
    """The state of one Hardware."""

    name: str
    labels: Mapping[str, str]
    holder: str = ""
    """The TinkerbellMachine that uses it; empty if it is free."""
    namespaces: frozenset[str] | None = None
    """Namespaces whose Clusters may use it; None for all."""
    addresses: frozenset[addresses.Address] = frozenset()
    problems: tuple[str, ...] = ()
    """Problems, each with its field. They name no other Hardware."""

    def permits(self, namespace: str) -> bool:
        """True if Clusters of a namespace may use it."""
        return self.namespaces is None or namespace in self.namespaces


class _Interfaces(NamedTuple):
    """The addresses of the interfaces of one Hardware."""

    macs: frozenset[str]
    ips: frozenset[str]


Secrets = Callable[[str], Object | None]
"""Finds a Secret of the system's namespace by its name."""


def hardware_states(hardware: Iterable[Object], bmcs: Iterable[Object], secrets: Secrets) -> tuple[HardwareState, ...]:
    """All Hardware, by name."""
    sorted_hardware = sorted(hardware, key=lambda object_: object_.name)
    bmcs_by_name = {bmc.name: bmc for bmc in bmcs}
    specs = {object_.name: _spec(object_) for object_ in sorted_hardware}
    interfaces = {name: _interfaces(spec) for name, spec in specs.items() if isinstance(spec, HardwareSpec)}
    macs, ips = (
        _duplicates(interfaces_of_hardware.macs for interfaces_of_hardware in interfaces.values()),
        _duplicates(interfaces_of_hardware.ips for interfaces_of_hardware in interfaces.values()),
    )
    states = []
    for object_ in sorted_hardware:
        spec = specs[object_.name]
        if isinstance(spec, HardwareSpec):
            problems = (
                *_own_problems(spec, interfaces[object_.name], macs, ips),
                *_bmc_problems(spec.bmc_ref, bmcs_by_name, secrets),
            )
        else:
            problems = (f"it can't be read: {spec[:LONGEST]}",)
        ips_of_hardware = interfaces[object_.name].ips if object_.name in interfaces else frozenset()
        states.append(
            HardwareState(
                object_.name,
                object_.metadata.labels,
                object_.metadata.labels.get(OWNER_NAME, ""),
                _namespaces(object_),
                frozenset(filter(None, map(addresses.parsed, ips_of_hardware))),
                tuple(problems),
            )
        )
    return tuple(states)


def _spec(object_: Object) -> HardwareSpec | str:
    """The spec of a Hardware, or why it can't be read."""
    try:
        return object_.decode(Hardware).spec
    except msgspec.ValidationError as error:
        return str(error)


def _interfaces(spec: HardwareSpec) -> _Interfaces:
    dhcps = [interface.dhcp for interface in spec.interfaces if interface.dhcp is not None]
    macs = frozenset(dhcp.mac.lower() for dhcp in dhcps if dhcp.mac)
    return _Interfaces(
        macs, frozenset(_canonical(dhcp.ip.address) for dhcp in dhcps if dhcp.ip is not None and dhcp.ip.address)
    )


def _canonical(text: str) -> str:
    """The canonical spelling of an address; other text as it is."""
    return str(addresses.parsed(text) or text)


def _duplicates(groups: Iterable[frozenset[str]]) -> frozenset[str]:
    """The values that are in several groups."""
    once: set[str] = set()
    twice: set[str] = set()
    for group in groups:
        twice |= once & group
        once |= group
    return frozenset(twice)


def _namespaces(object_: Object) -> frozenset[str] | None:
    listed = object_.metadata.annotations.get(NAMESPACES)
    return None if listed is None else frozenset(filter(None, (name.strip() for name in listed.split(","))))


def _own_problems(
    spec: HardwareSpec, interfaces: _Interfaces, macs: Collection[str], ips: Collection[str]
) -> Iterator[str]:
    if not spec.disks or not spec.disks[0].device:
        yield "spec.disks: found no device; set the disk for the operating system, like /dev/sda"
    if not interfaces.macs:
        yield "spec.interfaces: found no dhcp.mac; set that of the interface that it boots from"
    for field, values, duplicates in (("mac", interfaces.macs, macs), ("ip.address", interfaces.ips, ips)):
        for value in sorted(values & frozenset(duplicates)):
            yield f"spec.interfaces: dhcp.{field}: found {_quoted(value)}, which other Hardware has, too; correct one"


def _bmc_problems(reference: BMCRef | None, bmcs: Mapping[str, Object], secrets: Secrets) -> Iterator[str]:
    """Problems that prevent powering on the hardware."""
    if reference is None:
        return
    bmc_object = bmcs.get(reference.name)
    name = f"Machine {_quoted(reference.name)} of {BMCMachine.resource.group}"
    if bmc_object is None or reference.kind != BMCMachine.resource.kind:
        yield (
            f"spec.bmcRef: found {_quoted(reference.kind)} {_quoted(reference.name)}, but there is no such Machine of "
            f"{BMCMachine.resource.group} in namespace {SYSTEM_NAMESPACE}; create it, or remove the reference"
        )
        return
    try:
        bmc = bmc_object.decode(BMCMachine)
    except msgspec.ValidationError as error:
        yield f"spec.bmcRef: {name} can't be read: {str(error)[:LONGEST]}"
        return
    account = bmc.spec.connection.auth_secret_ref
    if account is not None and account.name:
        field = f"spec.bmcRef: {name}: spec.connection.authSecretRef"
        if account.namespace not in ("", SYSTEM_NAMESPACE):
            yield f"{field}.namespace: found {_quoted(account.namespace)}; allowed: {SYSTEM_NAMESPACE}"
        elif (secret := secrets(account.name)) is None:
            yield (
                f"{field}: found {_quoted(account.name)}, but there is no such Secret with {USER} and {PASSWORD} in "
                f"namespace {SYSTEM_NAMESPACE}; create it"
            )
        elif lack := _lack(secret):
            yield f"{field}: needs {lack}"
    if not is_contactable(bmc_object):
        yield f"spec.bmcRef: {name} can't be reached; see its conditions, or label it {SKIP_CONTACT_CHECK}=true"


def _lack(secret: Object) -> str:
    data = secret.decode(Secret).data
    return credentials.lacking(str(secret.key), data, (USER, PASSWORD), "with the account of a BMC")


def is_contactable(bmc: Object) -> bool:
    """False if Tinkerbell reports the BMC as unreachable, and no label skips the check."""
    try:
        is_out_of_reach = conditions.is_false(bmc.decode(BMCMachine).status.conditions, CONTACTABLE)
    except msgspec.ValidationError:
        return True
    return not is_out_of_reach or bmc.metadata.labels.get(SKIP_CONTACT_CHECK) == "true"


def _quoted(text: str) -> str:
    """Text from other programs, quoted for a message."""
    return json.dumps(text[:LONGEST], ensure_ascii=False)
