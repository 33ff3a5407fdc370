"""The objects that a cluster on Snow references: datacenter, machine configs, their IP pools, and credentials."""

from __future__ import annotations

import configparser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.host_os import BOTTLEROCKET
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.clusters.design.cluster_objects.linked_objects import of_kind
from espalier.clusters.design.cluster_objects.machine_groups import fields_with
from espalier.clusters.design.provider import Dependency, Further, RenderInput
from espalier.clusters.design.secrets.credentials import lacking
from espalier.kube.objects import Object
from espalier.providers.snow.kinds import (
    SnowDatacenterConfig,
    SnowDatacenterConfigSpec,
    SnowIPPool,
    SnowMachineConfig,
)

CREDENTIALS = "snow-credentials"
"""The Secret in `eksa-system` with credentials for devices, unless a datacenter names another."""

OF_DEVICES, AUTHORITIES = "credentials", "ca-bundle"
"""The fields of the Secret, as in EKS Anywhere: profiles of AWS by the address of a device, and certificates."""
FIELDS = (OF_DEVICES, AUTHORITIES)


def further(child: Object) -> Iterator[Further]:
    """The IP pools that a machine config names."""
    if child.kind != SnowMachineConfig.resource.kind:
        return
    for name in child.decode(SnowMachineConfig).spec.pools:
        field = f"{child.kind} {child.name}: spec.network.directNetworkInterfaces"
        yield Further(field, SnowIPPool.resource, name)


def credentials_of(spec: SnowDatacenterConfigSpec) -> str:
    """The Secret with credentials for devices."""
    return spec.identity_ref.name if spec.identity_ref is not None else CREDENTIALS


FILES = {OF_DEVICES: "EKSA_AWS_CREDENTIALS_FILE", AUTHORITIES: "EKSA_AWS_CA_BUNDLES_FILE"}
"""Variables that name files, by field of the Secret."""
_VARIABLES = tuple(FILES.values())


def depend(_cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Dependency]:
    """Dependencies on credentials, to be sent to each device that a machine config names."""
    configs = of_kind(SnowMachineConfig, children)
    of_devices = {
        device: name for name, machine_config in reversed(configs.items()) for device in machine_config.spec.devices
    }
    for datacenter in of_kind(SnowDatacenterConfig, children).values():
        for device, config in sorted(of_devices.items()):
            field = f"{SnowMachineConfig.resource.kind} {config}: spec.devices"
            name = credentials_of(datacenter.spec)
            yield Dependency(SECRET, name, field, device, _Lacks(name), variables=_VARIABLES, fields=FIELDS)


@dataclass(frozen=True)
class _Lacks:
    """The fields that a Secret lacks. Whether it has a profile for each device is checked with the devices."""

    name: str

    def __call__(self, data: Mapping[str, bytes], _annotations: Mapping[str, str]) -> str:
        description = "with profiles of AWS, named by the addresses of devices, and the certificates of these devices"
        return lacking(f"{SYSTEM_NAMESPACE}/{self.name}", data, FIELDS, description)


def credentials(render_input: RenderInput) -> Mapping[str, bytes]:
    """The credentials of the datacenter, with the certificates of devices."""
    reference = render_input.spec.datacenter_ref
    datacenter = of_kind(SnowDatacenterConfig, render_input.children)[reference.name if reference else ""]
    data = render_input.data[f"{SECRET.kind} {SYSTEM_NAMESPACE}/{credentials_of(datacenter.spec)}"]
    return {field: data[field] for field in (OF_DEVICES, AUTHORITIES)}


def keys_of(data: Mapping[str, bytes], device: str) -> tuple[str, str]:
    """The access key and the secret key for a device in the data of a Secret; empty if missing."""
    profiles = configparser.RawConfigParser(strict=False, default_section="")
    try:
        profiles.read_string(data.get(OF_DEVICES, b"").decode())
    except (configparser.Error, UnicodeDecodeError):
        return "", ""
    name = next((section for section in profiles.sections() if section.strip().lower() == device.lower()), "")
    keys = [profiles.get(name, f"aws_{key}", fallback="").strip() for key in ("access_key_id", "secret_access_key")]
    return keys[0], keys[1]


def authorities(data: Mapping[str, bytes]) -> str:
    """The certificates of devices, with comments in ASCII."""
    return data.get(AUTHORITIES, b"").decode("ascii", "replace").replace("\ufffd", "?")


def with_bottlerocket(spec: eksa.ClusterSpec, children: Sequence[Object]) -> list[str]:
    """The fields of a Cluster's spec that ask for machines with Bottlerocket."""
    configs = of_kind(SnowMachineConfig, children)
    return fields_with(BOTTLEROCKET, spec, {name: config.spec.os for name, config in configs.items()})
