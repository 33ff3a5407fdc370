"""Clients of obstore for a location, with credentials from Gardener's files. They are replaced when the files
change."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from espalier.api.trees import json_trees
from espalier.etcdbackup.stores.credentials import ENDPOINT_BESIDE, CredentialFiles, Credentials, Stamp
from espalier.etcdbackup.stores.errors import Refused
from espalier.etcdbackup.stores.location import Kind, Location
from espalier.etcdbackup.stores.retries import Retries

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, ObjectStore, RetryConfig, S3Config

CONNECT = 5.0
"""The largest number of seconds for connecting."""
TRUE, FALSE = ("true", "1", "t"), ("false", "0", "f", "")
_KEY = 32
"""Bytes of an AES-256 key."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Clients:
    """Two clients of one bucket, which differ in their timeouts only."""

    small: ObjectStore
    """A request and its answer end within `Retries.attempt`."""
    long: ObjectStore
    """For objects of any size: a request ends within `Retries.part` unless bytes arrive."""


class Access:
    """The clients of a location, with the present credentials."""

    def __init__(
        self,
        location: Location,
        files: CredentialFiles,
        retries: Retries,
        environ: Mapping[str, str],
        endpoint: str = "",
    ) -> None:
        self._location = location
        self._files = files
        self._retries = retries
        self._environ = environ
        self._endpoint = endpoint
        self._cached: tuple[Stamp, Clients] | None = None

    def clients(self) -> Clients:
        """Raises `Refused` if credentials can't be read, or are incomplete."""
        stamp = self._files.stamp()
        if self._cached is None or self._cached[0] != stamp:
            credentials = self._files.load()
            self._cached = (credentials.stamp, self._make(credentials))
        return self._cached[1]

    def _make(self, credentials: Credentials) -> Clients:
        settings = _Settings(self._location, credentials, self._environ, self._endpoint)
        build = {Kind.S3: _s3, Kind.GCS: _gcs, Kind.AZURE: _azure}[self._location.kind]
        limits = self._retries
        quick: RetryConfig = {
            "max_retries": limits.retries,
            "retry_timeout": timedelta(seconds=limits.total),
            "backoff": {
                "init_backoff": timedelta(seconds=min(0.1, limits.longest_wait)),
                "max_backoff": timedelta(seconds=limits.longest_wait),
                "base": 2,
            },
        }
        patient: RetryConfig = {**quick, "retry_timeout": timedelta(seconds=limits.total + limits.part)}
        options = settings.client_options()
        small: ClientConfig = {**options, "timeout": timedelta(seconds=limits.attempt)}
        long: ClientConfig = {**options, "timeout": _DAY, "read_timeout": timedelta(seconds=limits.part)}
        try:
            return Clients(build(settings, small, quick), build(settings, long, patient))
        except (BaseError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise Refused(str(self._location), f"its client can't be made: {reason}", "check its credentials") from None


@dataclass(frozen=True, slots=True)
class _Settings:
    location: Location
    credentials: Credentials
    environ: Mapping[str, str]
    endpoint_override: str

    def get(self, name: str) -> str:
        return self.credentials.values.get(name, "")

    @property
    def is_given(self) -> bool:
        return self.credentials.folder is not None

    def require(self, *names: str) -> None:
        if missing := [name for name in names if not self.get(name)]:
            raise Refused(f"{self.credentials.folder}", f"found no {' and no '.join(missing)}", "add it to the Secret")

    def switch(self, name: str) -> bool:
        word = self.get(name).lower()
        if word not in TRUE + FALSE:
            raise Refused(f"{self.credentials.folder}/{name}", f"found {word[:20]!r}", "allowed are true and false")
        return word in TRUE

    @property
    def endpoint(self) -> str:
        """URL of the server, without a slash at its end; empty: the provider's."""
        candidates = (self.endpoint_override, *self._endpoints(), self.get("endpoint"))
        endpoint_url = next((candidate for candidate in candidates if candidate), "").rstrip("/")
        if endpoint_url and urlsplit(endpoint_url).scheme not in ("http", "https"):
            raise Refused(str(self.location), f"found the endpoint {endpoint_url!r}", "allowed is an http or https URL")
        return endpoint_url

    def _endpoints(self) -> Iterator[str]:
        match self.location.kind:
            case Kind.GCS:
                yield self.get(ENDPOINT_BESIDE)
                yield self.environ.get("GOOGLE_STORAGE_API_ENDPOINT", "")
            case Kind.AZURE:
                account, domain = self.get("storageAccount"), self.get("domain")
                if self.switch("emulatorEnabled"):
                    self.require("domain")
                    yield f"http://{domain}/{account}"
                yield f"https://{account}.{domain}" if domain else ""
                emulator = self.environ.get("AZURE_STORAGE_API_ENDPOINT", "").rstrip("/")
                yield f"{emulator}/{account}" if emulator else ""

    def client_options(self) -> ClientConfig:
        options: ClientConfig = {"connect_timeout": timedelta(seconds=CONNECT), "user_agent": "espalier-etcd-agent"}
        if self.endpoint.startswith("http:"):
            options["allow_http"] = True
        if authority := self.get("trustedCaCert"):
            options["root_certificate"] = authority
        if self.switch("insecureSkipVerify"):
            options["allow_invalid_certificates"] = True
        return options


def _s3(settings: _Settings, options: ClientConfig, retry: RetryConfig) -> ObjectStore:
    config: S3Config = {"virtual_hosted_style_request": False}
    folder = settings.credentials.folder
    if folder is not None and settings.get("roleARN"):
        settings.require("region")
        config |= {"role_arn": settings.get("roleARN"), "web_identity_token_file": str(folder / "token")}
        config["region"] = settings.get("region")
    elif settings.is_given:
        settings.require("accessKeyID", "secretAccessKey", "region")
        config |= {"access_key_id": settings.get("accessKeyID"), "secret_access_key": settings.get("secretAccessKey")}
        config["region"] = settings.get("region")
    bucket = settings.location.container
    if endpoint := settings.endpoint:
        by_path = settings.switch("s3ForcePathStyle") or not settings.is_given or _is_address(endpoint)
        config["endpoint"] = endpoint if by_path else endpoint.replace("://", f"://{bucket}.", 1)
        config["virtual_hosted_style_request"] = not by_path
    else:
        config["virtual_hosted_style_request"] = "." not in bucket  # TLS wildcards cover one label
    if key := settings.get("sseCustomerKey"):
        config |= {"server_side_encryption": "sse-c", "sse_customer_key_base64": _customer_key(settings, key)}
    return S3Store(bucket, config=config, client_options=options, retry_config=retry)


def _customer_key(settings: _Settings, key: str) -> str:
    algorithm = settings.get("sseCustomerAlgorithm") or "AES256"
    if algorithm != "AES256":
        raise Refused(
            f"{settings.credentials.folder}/sseCustomerAlgorithm", f"found {algorithm!r}", "allowed is AES256"
        )
    if len(key.encode()) == _KEY:
        return base64.b64encode(key.encode()).decode()
    try:
        if len(base64.b64decode(key, validate=True)) == _KEY:
            return key
    except binascii.Error:
        pass
    raise Refused(f"{settings.credentials.folder}/sseCustomerKey", "it has another length", f"allowed are {_KEY} bytes")


def _gcs(settings: _Settings, options: ClientConfig, retry: RetryConfig) -> ObjectStore:
    config: GCSConfig = {}
    folder = settings.credentials.folder
    if folder is not None:
        settings.require("serviceaccount.json")
        account = settings.get("serviceaccount.json")
        if _is_service_account(account, folder):
            config["service_account_key"] = account
        else:  # federated identities, which name further files; obstore reads them by itself
            config["application_credentials"] = str(folder / "serviceaccount.json")
    if endpoint := settings.endpoint:
        config["base_url"] = endpoint.removesuffix("/storage/v1")
    if settings.environ.get("GOOGLE_EMULATOR_ENABLED", "").lower() in TRUE:
        config["skip_signature"] = True
    return GCSStore(settings.location.container, config=config, client_options=options, retry_config=retry)


def _is_service_account(account: str, folder: Path) -> bool:
    try:
        tree = json_trees.decode(account, dict[str, Any])
    except msgspec.MsgspecError:
        finding = "the service account is not a JSON object"
        raise Refused(str(folder), finding, "use the key file from the Google Cloud console") from None
    return bool(tree.get("type", "service_account") == "service_account")


def _azure(settings: _Settings, options: ClientConfig, retry: RetryConfig) -> ObjectStore:
    config: AzureConfig = {}
    if settings.is_given:
        settings.require("storageAccount", "storageKey")
        config |= {"account_name": settings.get("storageAccount"), "account_key": settings.get("storageKey")}
    if endpoint := settings.endpoint:
        config["endpoint"] = endpoint
    return AzureStore(settings.location.container, config=config, client_options=options, retry_config=retry)


def _is_address(endpoint: str) -> bool:
    """True for hosts that have no subdomains for buckets."""
    host = urlsplit(endpoint).hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." not in host
    return True
