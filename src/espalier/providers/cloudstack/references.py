"""The objects that a cluster on CloudStack references: datacenter, machine configs, and credentials."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from espalier.api.capi.cluster import Endpoint
from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.clusters.design.cluster_objects.linked_objects import datacenter, of_kind
from espalier.clusters.design.provider import Dependency, Name, RenderInput
from espalier.clusters.design.secrets.credentials import lacking
from espalier.kube.objects import Object
from espalier.providers.cloudstack.cluster_api import FAILURE_DOMAIN, CloudStackCluster
from espalier.providers.cloudstack.kinds import (
    AvailabilityZone,
    CloudStackDatacenterConfig,
    CloudStackDatacenterConfigSpec,
)

GLOBAL = "global"
"""The Secret of deprecated `zones`, as in EKS Anywhere."""

API_URL, API_KEY, SECRET_KEY, VERIFY_SSL = "api-url", "api-key", "secret-key", "verify-ssl"
"""The fields of the Secret, as Cluster API's provider reads them."""

FIELDS = (API_URL, API_KEY, SECRET_KEY)
"""Fields of a Secret that must be there."""

API_PORT = 6443


_HOST_AND_PORT = re.compile(r"(?P<host>\[[^][]*\]|[^][:]*)(:(?P<port>[0-9]{1,5}))?")


def endpoint(spec: eksa.ClusterSpec) -> Endpoint:
    """The address of the API server: `host` or `host:port`. Raises `ValueError` for anything else."""
    return endpoint_of(spec.endpoint_host)


def endpoint_of(text: str) -> Endpoint:
    """The address in a text. Raises `ValueError`."""
    if text.count(":") > 1 and not text.startswith("["):
        return Endpoint(host=text, port=API_PORT)
    if (match := _HOST_AND_PORT.fullmatch(text)) is None:
        raise ValueError(f"{text} is neither a host nor HOST:PORT")
    return Endpoint(host=match["host"].strip("[]"), port=int(match["port"] or API_PORT))


def server_of(url: str) -> str:
    """Host and port in the URL of an API. A Secret must permit the use of its keys by this name."""
    return url.partition("://")[2].partition("/")[0].lower()


def host_of(url: str) -> str:
    """The host in the URL of an API."""
    server = server_of(url)
    match = _HOST_AND_PORT.fullmatch(server)
    return match["host"] if match is not None else server


def availability_zones(spec: CloudStackDatacenterConfigSpec) -> list[AvailabilityZone]:
    """The availability zones of a datacenter; of deprecated `zones`, with the names that EKS Anywhere gives them."""
    return spec.availability_zones or [
        AvailabilityZone(
            name=f"default-az-{index}",
            credentials_ref=GLOBAL,
            zone=zone,
            domain=spec.domain,
            account=spec.account,
            management_api_endpoint=spec.management_api_endpoint,
        )
        for index, zone in enumerate(spec.zones)
    ]


def claims(cluster: str, _spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Name]:
    """The CloudStackFailureDomains that Cluster API's provider creates for a cluster."""
    for config in of_kind(CloudStackDatacenterConfig, children).values():
        yield from (_failure_domain(zone.name, cluster) for zone in availability_zones(config.spec))


def claimed(infrastructure: Object) -> Iterator[Name]:
    """The CloudStackFailureDomains that it created for a CloudStackCluster."""
    try:
        failure_domains = infrastructure.decode(CloudStackCluster).spec.failure_domains
    except msgspec.ValidationError:  # changed by hand: drift says so
        return
    for domain in failure_domains:
        yield _failure_domain(domain.name, infrastructure.name)


def _failure_domain(zone: str, cluster: str) -> Name:
    """The name is a digest of both names without a separator: zone `a` of cluster `bc` and zone `ab` of cluster `c`
    share one, and CAPC reuses an existing object, with its zone and its keys.
    """
    digest = hashlib.md5(f"{zone}{cluster}".encode(), usedforsecurity=False).hexdigest()
    return Name(FAILURE_DOMAIN, digest)


def credentials_of(zone: AvailabilityZone) -> str:
    """The Secret with the keys for an availability zone."""
    return zone.credentials_ref.lower()


def zones(render_input: RenderInput) -> list[AvailabilityZone]:
    """The availability zones of a cluster."""
    return availability_zones(datacenter(CloudStackDatacenterConfig, render_input).spec)


VARIABLE = "EKSA_CLOUDSTACK_B64ENCODED_SECRET"
"""Base64 of a file like this, with a section for each profile:

    [Global]
    api-url = https://cloudstack.example.com:8443/client/api
    api-key = KEY
    secret-key = KEY
    verify-ssl = true
"""


def depend(_cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Dependency]:
    """Dependencies on the keys of each availability zone, for use at its API."""
    for config in of_kind(CloudStackDatacenterConfig, children).values():
        for zone in availability_zones(config.spec):
            name, url = credentials_of(zone), zone.management_api_endpoint
            field = f"CloudStackDatacenterConfig {config.metadata.name}: availability zone {zone.name}"
            yield Dependency(
                SECRET, name, field, server_of(url), _Lacks(name, url), variables=(VARIABLE,), fields=FIELDS
            )


@dataclass(frozen=True)
class _Lacks:
    """The problems of a Secret. Cluster API's provider creates machines at the URL in the Secret."""

    name: str
    url: str

    def __call__(self, data: Mapping[str, bytes], _annotations: Mapping[str, str]) -> str:
        secret = f"{SYSTEM_NAMESPACE}/{self.name}"
        if lack := lacking(secret, data, FIELDS, "with the URL of an API of CloudStack, and the keys of a user"):
            return lack
        if data[API_URL] != self.url.encode():
            return f"field {API_URL} of Secret {secret} to be the managementApiEndpoint, {self.url}"
        return ""
