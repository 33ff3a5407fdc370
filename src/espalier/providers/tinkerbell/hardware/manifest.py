"""The objects of Tinkerbell for each machine of an inventory."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from espalier.api.core import Secret
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.api.meta import ObjectMeta, Tree
from espalier.providers.tinkerbell.hardware.inventory import BMC, Entry, read
from espalier.providers.tinkerbell.hardware_kinds import (
    DHCP,
    IP,
    BMCMachine,
    BMCMachineSpec,
    BMCRef,
    Connection,
    Disk,
    Facility,
    Hardware,
    HardwareSpec,
    Instance,
    InstanceIP,
    Interface,
    Metadata,
    Netboot,
    ProviderOptions,
    SecretReference,
)

FOR_EVER = 2**32 - 2
"""Seconds of a lease: machines keep their addresses."""
IPV4 = 4


def manifest(data: bytes, source: str) -> tuple[list[Tree], tuple[str, ...]]:
    """The objects of a CSV file, and a warning for each ignored column. Raises `ManifestError`."""
    inventory = read(data, source)
    trees = [msgspec.to_builtins(object_) for entry in inventory.entries for object_ in objects(entry)]
    return trees, inventory.warnings


def objects(entry: Entry) -> Iterator[KubeObject]:
    """The objects of one machine, in the system's namespace; each after those that it refers to, so that Clusters which
    wait for Hardware never see Hardware without its BMC."""
    if entry.bmc is not None:
        yield Secret(
            metadata=ObjectMeta(
                name=_secret(entry.hostname),
                namespace=SYSTEM_NAMESPACE,
                labels={"clusterctl.cluster.x-k8s.io/move": "true"},
            ),
            type="kubernetes.io/basic-auth",
            data={"username": entry.bmc.username.encode(), "password": entry.bmc.password.encode()},
        )
        yield _bmc(entry.hostname, entry.bmc)
    yield _hardware(entry)


def _machine(hostname: str) -> str:
    return f"bmc-{hostname}"


def _secret(hostname: str) -> str:
    return f"bmc-{hostname}-auth"


def _hardware(entry: Entry) -> Hardware:
    ip = {"address": entry.address, "netmask": entry.netmask, "gateway": entry.gateway, "family": IPV4}
    instance = Instance(
        id=entry.mac,
        hostname=entry.hostname,
        allow_pxe=True,
        always_pxe=True,
        ips=[InstanceIP(**ip, public=True)],  # type: ignore[arg-type]  # as in `IP`
    )
    dhcp = DHCP(
        arch="x86_64",
        mac=entry.mac,
        ip=IP(**ip),  # type: ignore[arg-type]  # texts, and one number
        lease_time=FOR_EVER,
        hostname=entry.hostname,
        name_servers=list(entry.nameservers),
        uefi=True,
        vlan_id=entry.vlan_id,
    )
    bmc_resource = BMCMachine.resource
    return Hardware(
        metadata=ObjectMeta(name=entry.hostname, namespace=SYSTEM_NAMESPACE, labels=dict(entry.labels)),
        spec=HardwareSpec(
            bmc_ref=BMCRef(api_group=bmc_resource.group, kind=bmc_resource.kind, name=_machine(entry.hostname))
            if entry.bmc is not None
            else None,
            disks=[Disk(device=entry.disk)],
            interfaces=[Interface(netboot=Netboot(allowPXE=True, allowWorkflow=True), dhcp=dhcp)],
            metadata=Metadata(facility=Facility(facility_code="onprem", plan_slug="c2.medium.x86"), instance=instance),
        ),
    )


def _bmc(hostname: str, bmc: BMC) -> BMCMachine:
    return BMCMachine(
        metadata=ObjectMeta(name=_machine(hostname), namespace=SYSTEM_NAMESPACE),
        spec=BMCMachineSpec(
            connection=Connection(
                host=bmc.host,
                auth_secret_ref=SecretReference(name=_secret(hostname), namespace=SYSTEM_NAMESPACE),
                insecure_tls=True,
                provider_options=ProviderOptions(preferred_order=["gofish"]),
            )
        ),
    )
