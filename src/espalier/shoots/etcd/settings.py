"""Flags of the agent beside an etcd, from its Etcd and the Etcd's annotations."""

from __future__ import annotations

import re

from espalier.api.gardener.etcd import MEMBERS, Backup, Etcd, Store
from espalier.api.gardener.numbers import whole_number
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.shoots.etcd import names
from espalier.shoots.secrets import peers

_SCHEMES = {
    "s3": "s3",
    "aws": "s3",
    "gcs": "gs",
    "gcp": "gs",
    "google": "gs",
    "abs": "az",
    "azure": "az",
    "local": "file",
}
_VARIABLES = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}
_POLICIES = {"Exponential": "exponential", "LimitBased": "limit-based"}
_SCHEME = re.compile(r"[a-z][a-z0-9]{0,62}", re.ASCII)


class InvalidEtcd(ValueError):
    """An Etcd that can't be run. The message names the field, the value found and what is allowed."""


def is_copy(etcd: Etcd) -> bool:
    """True for an Etcd that only copies backups."""
    return etcd.spec.backup.source_store is not None


def has_members(etcd: Etcd) -> bool:
    """True for an Etcd with three members."""
    return etcd.spec.replicas == MEMBERS and not is_copy(etcd)


def has_client_tls(etcd: Etcd) -> bool:
    """True for an etcd that demands certificates of its clients."""
    return bool(etcd.client_secret) and not is_copy(etcd)


def takes_plain_clients(etcd: Etcd) -> bool:
    """True for an etcd that answers clients without TLS."""
    return not has_client_tls(etcd) or etcd.metadata.annotations.get(metadata_keys.PLAIN_CLIENTS) == "true"


def check(etcd: Etcd) -> None:
    """Raise `InvalidEtcd` for an Etcd that can't be run."""
    if etcd.spec.replicas not in (0, 1, MEMBERS):
        raise InvalidEtcd(f"spec.replicas: found {etcd.spec.replicas}, allowed are 0, 1 and {MEMBERS}")
    if etcd.spec.replicas == MEMBERS and is_copy(etcd):
        raise InvalidEtcd(f"spec.replicas: found {MEMBERS}, allowed is 1: an etcd that only copies has no members")
    if has_members(etcd) and not etcd.peer_secret:
        field = "spec.etcd.peerUrlTls.serverTLSSecretRef"
        raise InvalidEtcd(f"{field}: found none; name the Secret with which {MEMBERS} members know each other")
    if etcd.client_secret and etcd.client_secret != etcd.peer_secret:
        field = "spec.etcd.clientUrlTls.serverTLSSecretRef.name"
        allowed = f"{etcd.peer_secret}, which spec.etcd.peerUrlTls names" if etcd.peer_secret else "none"
        raise InvalidEtcd(f"{field}: found {etcd.client_secret}, allowed is {allowed}")
    if etcd.spec.backup.store is None:
        raise InvalidEtcd(
            "spec.backup.store: found none; set it, as an etcd without backups can't move to another seed"
        )
    for key in (metadata_keys.EPOCH, *((metadata_keys.SOURCE_EPOCH,) if is_copy(etcd) else ())):
        epoch = etcd.metadata.annotations.get(key, "")
        if not whole_number(epoch):
            raise InvalidEtcd(f"annotation {key}: found {epoch!r}, allowed is the number of an ownership epoch")
    source = etcd.spec.backup.source_store
    if source is not None and source.place == etcd.spec.backup.store.place:
        raise InvalidEtcd("spec.backup.sourceStore: found the same as spec.backup.store, allowed is another store")


def agent_command(etcd: Etcd, *, timed: bool = False) -> list[str]:
    """The command of the agent: `espalier etcd-agent`, with a file of timing if it has one. Raises `InvalidEtcd`."""
    check(etcd)
    backup = etcd.spec.backup
    assert backup.store is not None  # noqa: S101 - checked
    words = ["espalier", "etcd-agent"]
    if backup.source_store is not None:
        words += ["copy", url(backup.source_store, "sourceStore"), url(backup.store, "store")]
        flags = {"source-endpoint": backup.source_store.endpoint_override, "endpoint": backup.store.endpoint_override}
        flags["source-epoch"] = etcd.metadata.annotations[metadata_keys.SOURCE_EPOCH]
    else:
        words += ["run", url(backup.store, "store"), *(["--founding"] if _is_founding(etcd) else [])]
        flags = {"store-endpoint": backup.store.endpoint_override, **_member_flags(etcd), **_backup_flags(backup)}
    # Stores of one cluster's epochs differ in the last part of their prefixes.
    cluster = backup.store.prefix.rpartition("/")[0] or etcd.metadata.namespace
    flags |= {"epoch": etcd.metadata.annotations[metadata_keys.EPOCH], "cluster": cluster}
    if timed:
        flags["timing"] = f"{names.CONFIG_PATH}/{names.TIMING_FILE}"
    flags["listen"] = f"0.0.0.0:{agent_port(etcd)}"
    if etcd.peer_secret:
        files = {"server-cert": peers.CERTIFICATE, "server-key": peers.KEY, "client-ca": peers.TRUSTED}
        flags |= {flag: f"{names.PEER_PATH}/{name}" for flag, name in files.items()}
    return [*words, *(f"--{name}={value}" for name, value in flags.items() if value)]


def guard_command(etcd: Etcd) -> list[str]:
    """The command of etcd's container: its guard, which starts etcd on the agent's order."""
    flags = {"etcd-socket": names.TLS_SOCKET if has_client_tls(etcd) else names.CLIENT_SOCKET}
    flags["control"] = names.GUARD_SOCKET
    if has_client_tls(etcd) and takes_plain_clients(etcd):
        flags["plain-socket"] = names.CLIENT_SOCKET
    flags["listen"] = f"0.0.0.0:{client_port(etcd)}"
    words = [f"--{name}={value}" for name, value in flags.items()]
    file = names.MEMBER_FILE if has_members(etcd) else f"{names.CONFIG_PATH}/{names.CONFIG_FILE}"
    return ["espalier", "etcd-guard", *words, "--", "etcd", f"--config-file={file}"]


def scheme_of(provider: str) -> str:
    """The scheme of URLs for stores of a provider; an unknown provider is its own scheme."""
    return _SCHEMES.get(provider.lower(), provider.lower())


def url(store: Store, field: str) -> str:
    """The URL of a store for agents. Raises `InvalidEtcd`."""
    scheme = scheme_of(store.provider or "")
    if not _SCHEME.fullmatch(scheme):
        allowed = "S3, GCS, ABS, Local or another word of letters and digits"
        raise InvalidEtcd(f"spec.backup.{field}.provider: found {store.provider!r}, allowed is {allowed}")
    if not store.container:
        raise InvalidEtcd(f"spec.backup.{field}.container: found none; name the bucket")
    path = "/".join(filter(None, (store.container.strip("/"), store.prefix.strip("/"))))
    return f"{scheme}:///{path}" if scheme == "file" else f"{scheme}://{path}"


def credentials_variable(store: Store) -> str:
    """The environment variable with the folder of a store's credentials, as etcd-backup-restore has it."""
    scheme = scheme_of(store.provider or "")
    return f"{_VARIABLES.get(scheme, scheme.upper())}_APPLICATION_CREDENTIALS"


def agent_port(etcd: Etcd) -> int:
    """The port of the agent."""
    return etcd.spec.backup.port or names.AGENT_PORT


def client_port(etcd: Etcd) -> int:
    """The port of etcd for clients."""
    return etcd.spec.etcd.client_port or names.CLIENT_PORT


def _is_founding(etcd: Etcd) -> bool:
    annotations = etcd.metadata.annotations
    return annotations.get(metadata_keys.FOUNDING) == "true" and metadata_keys.SOURCE_EPOCH not in annotations


def _member_flags(etcd: Etcd) -> dict[str, str | None]:
    flags: dict[str, str | None] = {
        "data-dir": names.DATA_DIRECTORY,
        "guard": names.GUARD_SOCKET,
        "endpoints": f"unix://{names.CLIENT_SOCKET}",
        "name": names.member(etcd.metadata.name, 0),
    }
    return flags | _flags_of_members(etcd) if has_members(etcd) else flags


def _flags_of_members(etcd: Etcd) -> dict[str, str | None]:
    own = f"$({names.POD_NAME})"

    def host(member: str) -> str:
        return names.member_host(etcd.metadata.name, etcd.metadata.namespace, member)

    def urls(scheme: str, port: int) -> str:
        members = (names.member(etcd.metadata.name, ordinal) for ordinal in range(MEMBERS))
        return ",".join(f"{member}={scheme}://{host(member)}:{port}" for member in members)

    return {
        "name": own,
        "initial-cluster": urls("https", names.PEER_PORT),
        # Members' IDs follow from their URLs and this token: with the epoch in it, a member that is left of an earlier
        # epoch of this seed is not taken for one of this etcd.
        "initial-cluster-token": f"{etcd.metadata.name}-{etcd.metadata.annotations[metadata_keys.EPOCH]}",
        "initial-advertise-peer-urls": f"https://{host(own)}:{names.PEER_PORT}",
        # With https only once no member is left that does not understand it.
        "member-clients": urls("http" if takes_plain_clients(etcd) else "https", client_port(etcd)),
        "member-agents": urls("https", agent_port(etcd)),
        "member-config": names.MEMBER_FILE,
        "etcd-config": f"{names.CONFIG_PATH}/{names.CONFIG_FILE}",
    }


def _backup_flags(backup: Backup) -> dict[str, str | None]:
    return {
        "schedule": backup.full_snapshot_schedule,
        "delta-snapshot-period": backup.delta_snapshot_period,
        "delta-snapshot-retention-period": backup.delta_snapshot_retention_period,
        "garbage-collection-policy": _POLICIES.get(backup.garbage_collection_policy or ""),
        "garbage-collection-period": backup.garbage_collection_period,
        "etcd-snapshot-timeout": backup.etcd_snapshot_timeout,
    }
