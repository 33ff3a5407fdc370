"""Credentials for Snow devices from the files that environment variables of the CLI of EKS Anywhere name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from espalier.api.meta import Tree
from espalier.clusters.design.secrets import credential_files, credentials
from espalier.providers.snow.kinds import SnowDatacenterConfig, SnowMachineConfig
from espalier.providers.snow.references import AUTHORITIES, FILES, OF_DEVICES, credentials_of


def secrets(environment: Mapping[str, str], manifest: Sequence[Tree]) -> Iterator[Tree]:
    """The Secret that the datacenter of a manifest names, for the devices of its machine configs, from the content of
    files; none without these, or without a datacenter.

    Raises `credential_files.Unreadable`, also for a device that has no profile.
    """
    datacenter_trees = [tree for tree in manifest if tree["kind"] == SnowDatacenterConfig.resource.kind]
    data = {field: environment[name] for field, name in FILES.items() if environment.get(name)}
    if len(data) < len(FILES) or not datacenter_trees:
        return
    datacenters = [msgspec.convert(tree, SnowDatacenterConfig) for tree in datacenter_trees]
    name = credentials_of(datacenters[0].spec)
    namespaces = {
        datacenter.metadata.namespace for datacenter in datacenters if credentials_of(datacenter.spec) == name
    }
    kind = SnowMachineConfig.resource.kind
    configs = [msgspec.convert(tree, SnowMachineConfig) for tree in manifest if tree["kind"] == kind]
    devices = [
        device for config in configs if config.metadata.namespace in namespaces for device in config.spec.devices
    ]
    if data[OF_DEVICES] != f"${FILES[OF_DEVICES]}":  # which stands for any file (`cli/clusters/manifests/offline.py`)
        _check(data, devices)
    yield credentials.secret(name, data, servers=devices, namespaces=namespaces)


def _check(data: Mapping[str, str], devices: Sequence[str]) -> None:
    variable = FILES[OF_DEVICES]
    profiles = credential_files.profiles(variable, data[OF_DEVICES], _EXPECTED)
    for device in devices:
        credential_files.lacking(variable, profiles, device.lower(), _KEYS, _EXPECTED)
    credential_files.check_certificates(FILES[AUTHORITIES], data[AUTHORITIES])


_KEYS = ("aws_access_key_id", "aws_secret_access_key")
_EXPECTED = (
    f"a file with a profile for each device, named by its address ([192.0.2.1]), which has {' and '.join(_KEYS)}"
)
