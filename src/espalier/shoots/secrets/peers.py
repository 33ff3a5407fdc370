"""The authorities of an etcd's members and of its client, their certificates, and how these are renewed while etcd
serves.

Agents are called with certificates of members as well, also of an etcd with one member. The client of etcd is
kube-apiserver. Its certificate is of an authority of its own, because neither members nor agents may accept it: who has
one of theirs may join etcd, or end the epoch.

etcd reads which authorities it trusts when it starts, and so does kube-apiserver. So pods restart one after the other,
three times, and each time they accept what all of them present, before and after:

    Before       trust the old authorities, present their certificates
    Preparing    trust both, present the old ones' certificates
    Completing   trust both, present the new ones' certificates
    After        trust the new authorities alone

Each of these has Secrets of its own, one for members and one for the client. They never change but for a certificate
that ends: a pod that starts again has what it had, and a pod of the next one can't start with anything older. The next
one begins once all pods have the last. Nothing else records where a renewal is: a crash at any point loses nothing.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from espalier.kube.connection.pki import Authority, KeyPair
from espalier.shoots.secrets import names
from espalier.shoots.secrets.persisted import Data, InvalidSecret, authority_of
from espalier.shoots.secrets.validity import DAYS, is_fresh, is_pair, validity

CERTIFICATE, KEY, TRUSTED = "tls.crt", "tls.key", "ca.crt"
"""The files of members and of the client: its certificate and key, and the authorities of members that it trusts."""
CLIENTS = "clients.crt"
"""The file of members with the authorities of clients that they trust: agents of other members, and the client."""
PREVIOUS, PREVIOUS_CLIENTS = "previous.crt", "previous-clients.crt"
"""In the authorities' Secret during a renewal: what members trusted before."""
_AUTHORITY, _AUTHORITY_KEY = "ca.crt", "ca.key"
_CLIENT_AUTHORITY, _CLIENT_AUTHORITY_KEY = "clients-ca.crt", "clients-ca.key"
CLIENT_USER = "kube-apiserver"
"""The common name of the client's certificate."""
_FORMER = ("ca-etcd", "etcd-server", "etcd-client")
"""Secrets of earlier gardenlets, which nothing used."""
_TOO_LATE = timedelta(days=1)
"""A certificate of the old authority that ends so soon is of no use: the new one is presented, whoever trusts it."""


@dataclass(frozen=True)
class Use:
    """The Secret that the pods of an etcd have; its client has the one that belongs to it (`client_secret`)."""

    secret: str = ""
    """The Secret that they are to have; empty if there are no pods that need one."""
    is_settled: bool = True
    """All of them are ready, and have it, and so has the client."""


@dataclass(frozen=True)
class Changes:
    """Changes of Secrets in a shoot's namespace."""

    write: dict[str, Data] = field(default_factory=dict)
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.write or self.delete)


def is_of_peers(name: str) -> bool:
    """True for the Secrets of this module."""
    prefixes = (f"{names.ETCD_PEER}-", f"{names.ETCD_CLIENT}-")
    return name in (names.CA_ETCD_PEER, names.ETCD_PEER, *_FORMER) or name.startswith(prefixes)


def client_secret(secret: str) -> str:
    """The name of the client's Secret that belongs to one of members."""
    return secret.replace(names.ETCD_PEER, names.ETCD_CLIENT, 1)


def has_clients(data: Data | None) -> bool:
    """True for a Secret of members with which etcd can demand certificates of its clients."""
    return data is not None and CLIENTS in data


def secret_of(present: Mapping[str, Data], use: Use, now: datetime) -> str:
    """The Secret that members are to have: the present one until the next one exists; empty if there is none."""
    authority = present.get(names.CA_ETCD_PEER)
    if authority is None or not authority.keys() >= {_AUTHORITY, _CLIENT_AUTHORITY}:
        return use.secret
    wanted = _wanted(authority, present, use, now)
    return wanted if {wanted, client_secret(wanted)} <= present.keys() else use.secret


def changes(
    present: Mapping[str, Data],
    use: Use,
    *,
    namespace: str,
    hosts: tuple[str, ...],
    now: datetime,
    rng: random.Random | None = None,
) -> Changes:
    """The Secrets to write and to delete now. `hosts`: names of members below the namespace's.

    A renewal begins when the authority is close to its end, or when its Secret was deleted. The old authority's key is
    not needed: its certificate is presented until all members trust both.
    """
    known, written = dict(present), dict[str, Data]()

    def write(name: str, data: Data) -> None:
        known[name] = written[name] = data

    if not is_due(known, use, now):
        return Changes()
    if not _is_usable(known.get(names.CA_ETCD_PEER), known, use, now):
        write(names.CA_ETCD_PEER, _new_authority(known, use, now, rng))
    authority = known[names.CA_ETCD_PEER]
    if _CLIENT_AUTHORITY not in authority:  # of an earlier gardenlet: clients had no certificates
        authority = authority | _new_client_authority(now, rng)
        write(names.CA_ETCD_PEER, authority)
    if _is_over(authority, known, use):
        over = (PREVIOUS, PREVIOUS_CLIENTS)
        authority = {name: content for name, content in authority.items() if name not in over}
        write(names.CA_ETCD_PEER, authority)
    wanted = _wanted(authority, known, use, now)
    if not _has_certificate(known, wanted, authority, now):
        write(wanted, _certificate(authority, known, wanted, use, namespace, hosts, now, rng))
    if not _has_client_certificate(known, wanted, authority, now):
        write(client_secret(wanted), _client_certificate(authority, known, wanted, use, now, rng))
    return Changes(written, _unused(present, wanted, use))


def is_due(present: Mapping[str, Data], use: Use, now: datetime) -> bool:
    """True if there is anything to change."""
    authority = present.get(names.CA_ETCD_PEER)
    if authority is None or not _is_usable(authority, present, use, now) or _CLIENT_AUTHORITY not in authority:
        return True
    if _is_over(authority, present, use):
        return True
    wanted = _wanted(authority, present, use, now)
    has_certificate = _has_certificate(present, wanted, authority, now)
    if not has_certificate or not _has_client_certificate(present, wanted, authority, now):
        return True
    return bool(_unused(present, wanted, use))


def _is_usable(authority: Data | None, present: Mapping[str, Data], use: Use, now: datetime) -> bool:
    if authority is None or not is_fresh(authority, _AUTHORITY, None, now):
        return False
    # Where clients have certificates, their authority is renewed in steps as well.
    needs_clients = _CLIENT_AUTHORITY in authority or has_clients(present.get(use.secret))
    if needs_clients and not is_fresh(authority, _CLIENT_AUTHORITY, None, now):
        return False
    try:
        authority_of(authority)
        if needs_clients:
            authority_of(_of_clients(authority))
    except InvalidSecret:
        return False
    return True


def _of_clients(authority: Data) -> Data:
    keys = {_AUTHORITY: _CLIENT_AUTHORITY, _AUTHORITY_KEY: _CLIENT_AUTHORITY_KEY}
    return {key: authority[name] for key, name in keys.items() if name in authority}


def _new_authority(present: Mapping[str, Data], use: Use, now: datetime, rng: random.Random | None) -> Data:
    authority = Authority.create(names.ETCD_PEER, now=now, rng=rng)
    data = {_AUTHORITY: authority.certificate, _AUTHORITY_KEY: authority.key} | _new_client_authority(now, rng)
    before = present.get(use.secret, {})
    trusted = {PREVIOUS: before.get(TRUSTED), PREVIOUS_CLIENTS: before.get(CLIENTS)}
    return data | {name: content for name, content in trusted.items() if content}


def _new_client_authority(now: datetime, rng: random.Random | None) -> Data:
    authority = Authority.create(names.ETCD_CLIENT, now=now, rng=rng)
    return {_CLIENT_AUTHORITY: authority.certificate, _CLIENT_AUTHORITY_KEY: authority.key}


def _is_over(authority: Data, present: Mapping[str, Data], use: Use) -> bool:
    """True if all members trust the new authority, and present its certificates; or if there are none."""
    if PREVIOUS not in authority:
        return False
    return use.is_settled and use.secret in ("", _name(authority, is_presented=True))


def _wanted(authority: Data, present: Mapping[str, Data], use: Use, now: datetime) -> str:
    completing = _name(authority, is_presented=True)
    if PREVIOUS not in authority or use.secret == completing:
        return completing
    preparing = _name(authority, is_presented=False)
    all_trust_both = use.secret == preparing and use.is_settled
    if all_trust_both or _ends(present.get(use.secret), now):
        return completing
    client = present.get(client_secret(use.secret))
    return completing if client is not None and _ends(client, now) else preparing


def _ends(data: Data | None, now: datetime) -> bool:
    """True if nobody can present it much longer: its certificate ends, or its key is missing or of another one."""
    certificate, key = (data.get(name, b"") for name in (CERTIFICATE, KEY)) if data is not None else (b"", b"")
    valid = validity(certificate, None)
    return valid is None or valid[1] - now < _TOO_LATE or not is_pair(certificate, key)


def _name(authority: Data, *, is_presented: bool) -> str:
    trusted = _trusted(authority) + _trusted_clients(authority)
    digest = hashlib.sha256(trusted if is_presented else b"trusted alone\n" + trusted).hexdigest()[:8]
    return f"{names.ETCD_PEER}-{digest}"


def _trusted(authority: Data) -> bytes:
    return authority[_AUTHORITY] + authority.get(PREVIOUS, b"")


def _trusted_clients(authority: Data) -> bytes:
    return _trusted(authority) + authority[_CLIENT_AUTHORITY] + authority.get(PREVIOUS_CLIENTS, b"")


def _has_certificate(present: Mapping[str, Data], wanted: str, authority: Data, now: datetime) -> bool:
    data = present.get(wanted)
    trusts_clients = data is not None and data.get(CLIENTS) == _trusted_clients(authority)
    return trusts_clients and _is_issued_by(data, wanted, authority, _AUTHORITY, now)


def _has_client_certificate(present: Mapping[str, Data], wanted: str, authority: Data, now: datetime) -> bool:
    return _is_issued_by(present.get(client_secret(wanted)), wanted, authority, _CLIENT_AUTHORITY, now)


def _is_issued_by(data: Data | None, wanted: str, authority: Data, issuer: str, now: datetime) -> bool:
    if data is None or data.get(TRUSTED) != _trusted(authority) or _ends(data, now):
        return False
    return wanted != _name(authority, is_presented=True) or is_fresh(data, CERTIFICATE, authority[issuer], now)


def _certificate(
    authority: Data,
    present: Mapping[str, Data],
    wanted: str,
    use: Use,
    namespace: str,
    hosts: tuple[str, ...],
    now: datetime,
    rng: random.Random | None,
) -> Data:
    trusted = {TRUSTED: _trusted(authority), CLIENTS: _trusted_clients(authority)}
    if wanted != _name(authority, is_presented=True):
        before = present[use.secret]
        return {CERTIFICATE: before[CERTIFICATE], KEY: before[KEY], **trusted}
    dns_names = ["localhost", *(f"{host}.{namespace}.svc" for host in hosts)]
    pair: KeyPair = authority_of(authority, rng).issue_peer(names.ETCD_PEER, names=dns_names, now=now, days=DAYS)
    return {CERTIFICATE: pair.certificate, KEY: pair.key, **trusted}


def _client_certificate(
    authority: Data, present: Mapping[str, Data], wanted: str, use: Use, now: datetime, rng: random.Random | None
) -> Data:
    trusted = {TRUSTED: _trusted(authority)}
    before = present.get(client_secret(use.secret))
    if wanted != _name(authority, is_presented=True) and before is not None and not _ends(before, now):
        return {CERTIFICATE: before[CERTIFICATE], KEY: before[KEY], **trusted}
    pair = authority_of(_of_clients(authority), rng).issue_client(CLIENT_USER, now=now, days=DAYS)
    return {CERTIFICATE: pair.certificate, KEY: pair.key, **trusted}


def _unused(present: Mapping[str, Data], wanted: str, use: Use) -> tuple[str, ...]:
    """Secrets of earlier certificates that no pod has any more."""
    if not use.is_settled:
        return ()
    used = {names.CA_ETCD_PEER, *(name for secret in (wanted, use.secret) for name in (secret, client_secret(secret)))}
    return tuple(name for name in present if is_of_peers(name) and name not in used)
