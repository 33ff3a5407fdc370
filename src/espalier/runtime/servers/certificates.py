"""The serving certificate of the webhooks: self-signed, stored in a Secret, renewed in time, trusted through caBundle.

Or somebody else issues it, such as cert-manager: then the Secret is only read.

All replicas share one Secret. A replica that finds it missing or due for renewal creates a new one; the write is
conditional, so that the first of two concurrent ones wins. API servers trust a new authority before any replica serves
a certificate of it, and the old one stays trusted until it expires.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import msgspec
import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from espalier.api.core import (
    MUTATING_WEBHOOK_CONFIGURATION,
    SECRET,
    VALIDATING_WEBHOOK_CONFIGURATION,
    Secret,
)
from espalier.api.meta import ObjectMeta
from espalier.api.resource import Key, Resource
from espalier.api.text.listing import first
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Outcome, Wait

SECRET_NAME = "espalier-webhook-server-cert"  # noqa: S105 - the name of a Secret

_OTHER_NAMES = 32
"""Number of names of other replicas that a renewed certificate keeps."""

_log = structlog.get_logger("espalier.webhooks")


class Lifetime(NamedTuple):
    """The lifetime of certificates in days. They are renewed after two thirds of it."""

    authority: float = 3650
    serving: float = 365


class Registration(Protocol):
    """Another object than a webhook configuration from which callers learn our address and the authorities to trust."""

    def follow(self, caches: Caches) -> Cache:
        """The cache whose changes cause a reconcile."""

    async def trust(self, bundle: bytes) -> None:
        """Have callers trust these authorities."""


class CertificateUnusable(KubeError):
    """The Secret that somebody else writes has no certificate that can be served. The message says why."""


class ServingCertificate:
    """Maintains the Secret and the caBundles; a controller with its own caches that runs on every replica.

    `names` are the DNS names and addresses by which API servers reach the webhooks. `validating` and `mutating` name
    the webhook configurations whose caBundles it sets; it watches and writes no others. `registrations` get the same
    authorities. `serve` is called with each new pair. With `issued`, somebody else writes and renews the Secret.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        names: Sequence[str],
        validating: Sequence[str] = (),
        mutating: Sequence[str] = (),
        registrations: Sequence[Registration] = (),
        serve: Callable[[KeyPair], None],
        clock: Clock,
        rng: random.Random | None = None,
        lifetime: Lifetime | None = None,
        secret_name: str = SECRET_NAME,
        issued: bool = False,
    ) -> None:
        self._client = client
        self._key = Key(namespace, secret_name)
        self._names = tuple(names)
        self._issued = issued
        self._serve = serve
        self._clock = clock
        self._rng = rng
        self._lifetime = lifetime or Lifetime()
        self._served = b""
        # Without `rng`, keys come from the system's generator; any will do to spread retries.
        self._caches = Caches(client, rng=rng)
        self._secrets = self._caches.of(SECRET, namespace, fields=f"metadata.name={secret_name}")
        self._configurations: list[tuple[Resource, Cache]] = [
            (resource, self._caches.of(resource, fields=f"metadata.name={name}"))
            for resource, names_ in (
                (VALIDATING_WEBHOOK_CONFIGURATION, validating),
                (MUTATING_WEBHOOK_CONFIGURATION, mutating),
            )
            for name in names_
        ]
        self.trouble: KubeError | None = None
        """The error of the last reconcile, if it failed."""
        self._registrations = registrations
        registered = [registration.follow(self._caches) for registration in registrations]
        self.caches = self._caches
        self.controller = Controller("webhook-certificate", self._reconcile, workers=1)
        for cache in (self._secrets, *(cache for _, cache in self._configurations), *registered):
            self.controller.watch(cache, lambda _: (self._key,))

    def begin(self) -> None:
        """Enqueue the first reconcile, as there may be no object yet whose event does."""
        self.controller.enqueue(self._key)

    async def _reconcile(self, key: Key) -> Outcome:
        try:
            outcome = await self._ensure(key)
        except KubeError as error:
            self.trouble = error
            raise
        self.trouble = None
        return outcome

    async def _ensure(self, key: Key) -> Outcome:
        now = self._clock.now()
        secret = self._secrets.get(key)
        if self._issued:
            serving, trusted = self._read_issued(secret, now)
            await self._use(serving, trusted)
            expires_in = (serving.not_after - now).total_seconds()
            return Wait("CertificateValid", "waiting for others to renew the certificate", after=max(expires_in, 1.0))
        stored = _read(secret) if secret is not None else None
        if secret is None:
            stored = self._renewed(None, now)
            self._secrets.wrote(await self._client.create(SECRET, _secret(key, stored)))
        elif stored is None or not stored.is_valid_for(self._names, now):
            stored = self._renewed(stored, now)
            self._secrets.wrote(await self._write(secret, stored))
        await self._use(stored.serving, stored.trusted)
        renew_in = (stored.renew_at - now).total_seconds()
        return Wait("CertificateValid", "waiting for the renewal of the serving certificate", after=max(renew_in, 1.0))

    async def _use(self, serving: KeyPair, trusted: bytes) -> None:
        """Have callers trust these authorities, and then serve this pair."""
        for resource, cache in self._configurations:
            for configuration in cache.list():
                await self._trust(resource, cache, configuration, trusted)
        for registration in self._registrations:
            await registration.trust(trusted)
        if serving.certificate != self._served:
            self._served = serving.certificate
            self._serve(serving)
            _log.info("loaded the serving certificate", not_after=serving.not_after.isoformat())

    def _read_issued(self, secret: Object | None, now: datetime) -> tuple[KeyPair, bytes]:
        """The pair that somebody else issued, and the authorities to trust. Raises `CertificateUnusable`."""
        name = f"Secret {self._key.namespace}/{self._key.name}"
        if secret is None:
            raise CertificateUnusable(f"{name}: found none; create it, or have cert-manager do so")
        data = secret.decode(Secret).data
        if missing := [key for key in ("tls.crt", "tls.key", "ca.crt") if not data.get(key)]:
            raise CertificateUnusable(f"{name}: found no {', '.join(missing)}; needed are tls.crt, tls.key and ca.crt")
        serving = KeyPair(data["tls.crt"], data["tls.key"])
        try:
            names, not_after = _names(serving.x509), serving.not_after
            key = load_pem_private_key(serving.key, password=None)
            chain, trusted = (x509.load_pem_x509_certificates(data[key]) for key in ("tls.crt", "ca.crt"))
        except (ValueError, TypeError, x509.ExtensionNotFound, UnsupportedAlgorithm) as error:
            raise CertificateUnusable(f"{name}: found no valid PEM ({type(error).__name__}); replace it") from None
        if key.public_key() != serving.x509.public_key():
            raise CertificateUnusable(f"{name}: found a tls.key that is not of tls.crt; replace one of them")
        if not _leads_to(chain, trusted):
            raise CertificateUnusable(f"{name}: found a tls.crt that no authority in ca.crt has issued; replace ca.crt")
        if self._names[0] not in names:
            named = first(names, 5)
            raise CertificateUnusable(f"{name}: found a certificate for {named}; needed is one for {self._names[0]}")
        if not_after <= now:
            raise CertificateUnusable(f"{name}: found a certificate that ended {not_after.isoformat()}; renew it")
        return serving, data["ca.crt"]

    def _renewed(self, stored: StoredCertificates | None, now: datetime) -> StoredCertificates:
        """A new serving pair; with a new authority if the old one is unusable or due for renewal."""
        trusted = b""
        if stored is None or _renew_at(stored.authority) <= now:
            days = self._lifetime.authority
            authority = Authority.create("espalier-webhooks", now=now, days=days, rng=self._rng)
            if stored is not None:
                trusted = _still_valid(stored.trusted, now)
        else:
            authority, trusted = stored.authority, stored.trusted
        days = self._lifetime.serving
        names = self._names if stored is None else _with_names_of_other_replicas(self._names, stored.serving)
        serving = authority.issue_server(self._names[0], names=names, now=now, days=days)
        if authority.certificate not in trusted:
            trusted = authority.certificate + trusted
        return StoredCertificates(Authority.load(authority.certificate, authority.key, self._rng), serving, trusted)

    async def _write(self, secret: Object, stored: StoredCertificates) -> Object:
        patch = {
            "metadata": {"resourceVersion": secret.resource_version},
            "data": msgspec.to_builtins(_data(stored)),
        }
        return await self._client.patch(SECRET, secret.name, secret.namespace, patch=patch, type=PatchType.MERGE)

    async def _trust(self, resource: Resource, cache: Cache, configuration: Object, trusted: bytes) -> None:
        """Set the caBundle of each webhook that has another one, guarded by a test of its name at that index."""
        wanted = base64.b64encode(trusted).decode()
        patch: list[dict[str, Any]] = []
        for index, webhook in enumerate(configuration.tree.get("webhooks") or []):
            if webhook["clientConfig"].get("caBundle") != wanted:
                path = f"/webhooks/{index}"
                patch.append({"op": "test", "path": f"{path}/name", "value": webhook["name"]})
                patch.append({"op": "add", "path": f"{path}/clientConfig/caBundle", "value": wanted})
        if patch:
            cache.wrote(await self._client.patch(resource, configuration.name, patch=patch, type=PatchType.JSON))


class StoredCertificates(msgspec.Struct, frozen=True):
    """The content of the Secret: the signing authority, the serving pair, and the certificates to trust."""

    authority: Authority
    serving: KeyPair
    trusted: bytes

    @property
    def renew_at(self) -> datetime:
        """The time of renewal, after two thirds of the shorter lifetime."""
        return min(_renew_at(self.authority), _renew_at(self.serving))

    def is_valid_for(self, names: Sequence[str], now: datetime) -> bool:
        """True if the certificate covers these names and is not due for renewal."""
        return now < self.renew_at and set(names) <= set(_names(self.serving.x509))


def _read(secret: Object) -> StoredCertificates | None:
    """Parse a Secret; None if it is unusable and has to be replaced."""
    data = secret.decode(Secret).data
    try:
        authority = Authority.load(_signing_certificate(data["ca.crt"]), data["ca.key"])
        serving = KeyPair(data["tls.crt"], data["tls.key"])
        serving.x509.verify_directly_issued_by(authority.x509)
    except Exception as error:  # the Secret may have any content
        _log.warning("replacing the serving certificate, which is unusable", error=type(error).__name__)
        return None
    return StoredCertificates(authority, serving, data["ca.crt"])


def _data(stored: StoredCertificates) -> dict[str, bytes]:
    return {
        "ca.crt": stored.trusted,
        "ca.key": stored.authority.key,
        "tls.crt": stored.serving.certificate,
        "tls.key": stored.serving.key,
    }


def _secret(key: Key, stored: StoredCertificates) -> Secret:
    metadata = ObjectMeta(name=key.name, namespace=key.namespace)
    return Secret(metadata=metadata, type="kubernetes.io/tls", data=_data(stored))


def _renew_at(pair: KeyPair) -> datetime:
    start = pair.x509.not_valid_before_utc
    return start + (pair.not_after - start) * 2 / 3


def _still_valid(bundle: bytes, now: datetime) -> bytes:
    certificates = x509.load_pem_x509_certificates(bundle)
    return b"".join(
        certificate.public_bytes(Encoding.PEM)
        for certificate in certificates
        if certificate.not_valid_after_utc > now + timedelta(minutes=1)
    )


def _leads_to(chain: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate]) -> bool:
    """True if the first certificate of a chain is trusted, or issued by a trusted one, maybe through others of it."""
    reached, others = [chain[0]], list(chain[1:])
    while reached:
        certificate = reached.pop()
        if certificate in trusted or any(_has_issued(authority, certificate) for authority in trusted):
            return True
        reached += [other for other in others if _has_issued(other, certificate)]
        others = [other for other in others if other not in reached]
    return False


def _has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _signing_certificate(bundle: bytes) -> bytes:
    """The signing authority, which is the first of the bundle."""
    return x509.load_pem_x509_certificates(bundle)[0].public_bytes(Encoding.PEM)


def _with_names_of_other_replicas(names: Sequence[str], serving: KeyPair) -> Sequence[str]:
    """Our names and those of other replicas, which may differ, for example during an upgrade, but share this pair.

    If each renewed it for its own names only, they would replace it in turns for ever.
    """
    others = [name for name in _names(serving.x509) if name not in names]
    return [*names, *others[:_OTHER_NAMES]]


def _names(certificate: x509.Certificate) -> list[str]:
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    names = extension.get_values_for_type(x509.DNSName)
    return [*names, *map(str, extension.get_values_for_type(x509.IPAddress))]
