"""Keys for APIs of CloudStack from the environment variable that the CLI of EKS Anywhere reads."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from espalier.api.meta import Tree
from espalier.clusters.design.secrets import credential_files, credentials
from espalier.providers.cloudstack.kinds import AvailabilityZone, CloudStackDatacenterConfig
from espalier.providers.cloudstack.references import (
    API_KEY,
    API_URL,
    SECRET_KEY,
    VARIABLE,
    VERIFY_SSL,
    availability_zones,
    credentials_of,
    server_of,
)

FIELDS = (API_URL, API_KEY, SECRET_KEY)
_EXPECTED = f"base64 of a file with a section [NAME] for each profile, with {', '.join(FIELDS)}"

PLACEHOLDER = f"${VARIABLE}"
"""The value of the variable where real keys must not be (`cli/clusters/manifests/offline.py`): it stands for any
profile."""

MOST = 1 << 20
"""Bytes of the variable."""


def secrets(environment: Mapping[str, str], manifest: Sequence[Tree]) -> Iterator[Tree]:
    """The Secrets that the availability zones of a manifest name, as far as the variable has profiles for them.

    Raises `credential_files.Unreadable`, also where it has none of these profiles.
    """
    variable = environment.get(VARIABLE, "")
    named = _zones(manifest)
    profiles = _profiles(variable) if variable not in ("", PLACEHOLDER) and named else {}
    if profiles and not profiles.keys() & named.keys():
        credential_files.lacking(VARIABLE, profiles, next(iter(named)), FIELDS, _EXPECTED)
    for name, zones in named.items():
        if name in profiles:
            credential_files.lacking(VARIABLE, profiles, name, FIELDS, _EXPECTED)
        urls = [zone.management_api_endpoint for _, zone in zones]
        any_profile = {API_URL: urls[0], API_KEY: variable, SECRET_KEY: variable}
        profile = any_profile if variable == PLACEHOLDER else profiles.get(name, {})
        data = {field: profile.get(field, "") for field in FIELDS}
        if all(data.values()):
            data[VERIFY_SSL] = profile.get(VERIFY_SSL, "true")
            namespaces = [namespace for namespace, _ in zones]
            yield credentials.secret(name, data, servers=map(server_of, urls), namespaces=namespaces)


def _zones(manifest: Sequence[Tree]) -> Mapping[str, list[tuple[str, AvailabilityZone]]]:
    """Namespaces and availability zones, by the Secrets that they name."""
    kind = CloudStackDatacenterConfig.resource.kind
    zones_by_secret: dict[str, list[tuple[str, AvailabilityZone]]] = {}
    for datacenter in (msgspec.convert(tree, CloudStackDatacenterConfig) for tree in manifest if tree["kind"] == kind):
        for zone in availability_zones(datacenter.spec):
            zones_by_secret.setdefault(credentials_of(zone), []).append((datacenter.metadata.namespace, zone))
    return zones_by_secret


def _profiles(variable: str) -> credential_files.Profiles:
    if len(variable) > MOST:
        message = f"{VARIABLE}: found {len(variable)} bytes, the limit is {MOST}; expected: {_EXPECTED}"
        raise credential_files.Unreadable(message)
    try:
        text = base64.b64decode("".join(variable.split()), validate=True).decode()
    except ValueError:
        raise credential_files.Unreadable(f"{VARIABLE}: not base64-encoded text; expected: {_EXPECTED}") from None
    return credential_files.profiles(VARIABLE, text, _EXPECTED)
