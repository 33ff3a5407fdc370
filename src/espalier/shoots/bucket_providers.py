"""Declarations of providers of buckets, and the configuration that some of them share.

The garden's admission and gardenlets import no provider: what assembles them gives them these declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from espalier.api.meta import Observed

URL, ENDPOINT = "url", "endpoint"
"""Fields of a `BucketConfig` and a `BucketStatus`; also keys of Secrets with the credentials of a bucket."""
LONGEST_URL = 300
BUCKET = "{bucket}"
"""In URLs of a `BucketConfig`: the name of a bucket."""


@dataclass(frozen=True)
class BucketCapabilities:
    """The declaration of a provider; without one, nothing is known about its buckets."""

    uses_bucket_config: bool = False
    """True if the `providerConfig` of its Seeds and buckets is a `BucketConfig`, and the `providerStatus` of its
    buckets a `BucketStatus`: then a Seed alone tells where they are."""
    domains: tuple[str, ...] = ()
    """Domains in which each server is the provider's own store."""


BucketProviders: TypeAlias = Mapping[str, BucketCapabilities]
"""By type, as in `spec.backup.provider` of Seeds."""
UNDECLARED = BucketCapabilities()
PUBLIC_CLOUDS: BucketProviders = {
    "alicloud": BucketCapabilities(domains=("aliyuncs.com",)),
    "aws": BucketCapabilities(domains=("amazonaws.com", "amazonaws.com.cn")),
    "azure": BucketCapabilities(domains=("core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net")),
    "gcp": BucketCapabilities(domains=("googleapis.com", "gserviceaccount.com")),
}
"""A store of OpenStack or another installation has no domain of its own."""


class BucketConfig(Observed, frozen=True):
    """`spec.providerConfig` of a BackupBucket: the URL of buckets, as `s3://{bucket}` or `file:///backups/{bucket}`."""

    url: str = ""
    endpoint: str = ""
    """URL of their server, where it is not the provider's own."""


class BucketStatus(Observed, frozen=True):
    """`status.providerStatus` of a BackupBucket, which gardenlets pass on to BackupEntries."""

    url: str = ""
    endpoint: str = ""


def endpoint_fault(endpoint: str) -> str:
    """The problem of an endpoint; empty if there is none, or no endpoint. It never repeats a password."""
    if not endpoint:
        return ""
    allowed = "allowed: an http or https URL without credentials, query and fragment"
    try:
        split = urlsplit(endpoint)
        is_url = split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0
    except ValueError:  # its port, or what is in brackets
        return f"found no URL, {allowed}"
    if "@" in endpoint:
        return f"found credentials in it, {allowed}; put them into the Secret"
    if not (is_url and _is_plain(endpoint)):
        return f"found {endpoint[:100]!r}, {allowed}, of at most {LONGEST_URL} characters"
    return ""


def url_fault(url: str, bucket: str) -> str:
    """The problem of a bucket's URL; empty if there is none. It never repeats a password."""
    allowed = f"allowed: a URL of bucket {bucket}, as s3://{bucket}, of at most {LONGEST_URL} characters"
    try:
        split = urlsplit(url)
    except ValueError:  # what is in brackets
        return f"found no URL, {allowed}"
    if "@" in url:
        return f"found credentials in it, {allowed}; put them into the Secret"
    is_place = split.scheme and bucket in split.netloc + split.path and ".." not in split.path.split("/")
    return "" if is_place and _is_plain(url) else f"found {url[:100]!r}, {allowed}"


def _is_plain(url: str) -> bool:
    return len(url) <= LONGEST_URL and url.isascii() and url.isprintable() and not set(url) & set(" ?#\\")


def with_endpoint(credentials: Mapping[str, bytes], endpoint: str) -> Mapping[str, bytes]:
    """The files of credentials as clients of the store get them: with this endpoint, unless they have one."""
    return credentials if credentials.get(ENDPOINT) or not endpoint else {**credentials, ENDPOINT: endpoint.encode()}
