"""The authority of an etcd's members and their certificates, and how both are renewed while etcd serves.

Agents are called with these certificates as well, also of an etcd with one member.

etcd reads which authorities it trusts when it starts. So members restart one after the other, three times, and each
time they accept what all of them present, before and after:

    Before       trust the old authority, present its certificate
    Preparing    trust both, present the old one's certificate
    Completing   trust both, present the new one's certificate
    After        trust the new authority alone

Each of these has a Secret of its own, which never changes but for a certificate that ends: a pod that starts again has
what it had, and a pod of the next one can't start with anything older. The next one begins once all pods have the last.
Nothing else records where a renewal is: a crash at any point loses nothing.
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
from espalier.shoots.secrets.validity import DAYS, is_fresh, validity

CERTIFICATE, KEY, TRUSTED = "tls.crt", "tls.key", "ca.crt"
"""The files of members: etcd's certificate and its key, and the authorities that it trusts."""
PREVIOUS = "previous.crt"
"""In the authority's Secret during a renewal: what members trusted before."""
_AUTHORITY, _AUTHORITY_KEY = "ca.crt", "ca.key"
_TOO_LATE = timedelta(days=1)
"""A certificate of the old authority that ends so soon is of no use: the new one is presented, whoever trusts it."""


@dataclass(frozen=True)
class Use:
    """The Secret that the pods of an etcd have."""

    secret: str = ""
    """The Secret that they are to have; empty if there are no pods that need one."""
    is_settled: bool = True
    """All of them are ready, and have it."""


@dataclass(frozen=True)
class Changes:
    """Changes of Secrets in a shoot's namespace."""

    write: dict[str, Data] = field(default_factory=dict)
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.write or self.delete)


def is_of_peers(name: str) -> bool:
    """True for the Secrets of this module."""
    return name in (names.CA_ETCD_PEER, names.ETCD_PEER) or name.startswith(f"{names.ETCD_PEER}-")


def secret_of(present: Mapping[str, Data], use: Use, now: datetime) -> str:
    """The Secret that members are to have: the present one until the next one exists; empty if there is none."""
    authority = present.get(names.CA_ETCD_PEER)
    wanted = _wanted(authority, present, use, now) if authority is not None else ""
    return wanted if wanted in present else use.secret


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
    if not _is_usable(known.get(names.CA_ETCD_PEER), now):
        write(names.CA_ETCD_PEER, _new_authority(known, use, now, rng))
    authority = known[names.CA_ETCD_PEER]
    if _is_over(authority, known, use):
        authority = {name: content for name, content in authority.items() if name != PREVIOUS}
        write(names.CA_ETCD_PEER, authority)
    wanted = _wanted(authority, known, use, now)
    if not _has_certificate(known, wanted, authority, use, now):
        write(wanted, _certificate(authority, known, wanted, use, namespace, hosts, now, rng))
    return Changes(written, _unused(present, wanted, use))


def is_due(present: Mapping[str, Data], use: Use, now: datetime) -> bool:
    """True if there is anything to change."""
    authority = present.get(names.CA_ETCD_PEER)
    if authority is None or not _is_usable(authority, now) or _is_over(authority, present, use):
        return True
    wanted = _wanted(authority, present, use, now)
    return not _has_certificate(present, wanted, authority, use, now) or bool(_unused(present, wanted, use))


def _is_usable(authority: Data | None, now: datetime) -> bool:
    if authority is None or not is_fresh(authority, _AUTHORITY, None, now):
        return False
    try:
        authority_of(authority)
    except InvalidSecret:
        return False
    return True


def _new_authority(present: Mapping[str, Data], use: Use, now: datetime, rng: random.Random | None) -> Data:
    authority = Authority.create(names.ETCD_PEER, now=now, rng=rng)
    data = {_AUTHORITY: authority.certificate, _AUTHORITY_KEY: authority.key}
    before = present.get(use.secret, {}).get(TRUSTED)
    return {**data, PREVIOUS: before} if before else data


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
    return completing if all_trust_both or _ends(present.get(use.secret), now) else preparing


def _ends(data: Data | None, now: datetime) -> bool:
    valid = validity(data.get(CERTIFICATE, b""), None) if data is not None else None
    return valid is None or valid[1] - now < _TOO_LATE


def _name(authority: Data, *, is_presented: bool) -> str:
    trusted = _trusted(authority)
    digest = hashlib.sha256(trusted if is_presented else b"trusted alone\n" + trusted).hexdigest()[:8]
    return f"{names.ETCD_PEER}-{digest}"


def _trusted(authority: Data) -> bytes:
    return authority[_AUTHORITY] + authority.get(PREVIOUS, b"")


def _has_certificate(present: Mapping[str, Data], wanted: str, authority: Data, use: Use, now: datetime) -> bool:
    data = present.get(wanted)
    if data is None or KEY not in data or data.get(TRUSTED) != _trusted(authority):
        return False
    if wanted == _name(authority, is_presented=True):
        return is_fresh(data, CERTIFICATE, authority[_AUTHORITY], now)
    return not _ends(data, now)


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
    trusted = {TRUSTED: _trusted(authority)}
    if wanted != _name(authority, is_presented=True):
        before = present[use.secret]
        return {CERTIFICATE: before[CERTIFICATE], KEY: before[KEY], **trusted}
    dns_names = ["localhost", *(f"{host}.{namespace}.svc" for host in hosts)]
    pair: KeyPair = authority_of(authority, rng).issue_peer(names.ETCD_PEER, names=dns_names, now=now, days=DAYS)
    return {CERTIFICATE: pair.certificate, KEY: pair.key, **trusted}


def _unused(present: Mapping[str, Data], wanted: str, use: Use) -> tuple[str, ...]:
    """Secrets of earlier certificates that no pod has any more."""
    if not use.is_settled:
        return ()
    return tuple(name for name in present if is_of_peers(name) and name not in (names.CA_ETCD_PEER, wanted, use.secret))
