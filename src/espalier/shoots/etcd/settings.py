"""Flags of the agent beside an etcd, from its Etcd and from the words on it."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.gardener import metadata_keys
from espalier.api.gardener.etcd import Backup, Etcd, Store
from espalier.shoots.etcd import names

MOST_REPLICAS = 1
"""An etcd of several members needs an agent that knows them."""


class Unusable(ValueError):
    """An Etcd that can't be run as it is. The message names the field, what was found and what is allowed."""


def is_copy(etcd: Etcd) -> bool:
    """True for a copy version."""
    return etcd.spec.backup.source_store is not None


def check(etcd: Etcd) -> None:
    """Raise `Unusable` for an Etcd that can't be run."""
    if etcd.spec.replicas > MOST_REPLICAS:
        raise Unusable(f"spec.replicas: found {etcd.spec.replicas}, allowed are 0 and {MOST_REPLICAS}")
    if etcd.spec.backup.store is None:
        raise Unusable("spec.backup.store: found none, and without backups an etcd can't pass to another seed; set it")
    for key in (metadata_keys.EPOCH, *((metadata_keys.SOURCE_EPOCH,) if is_copy(etcd) else ())):
        found = etcd.metadata.annotations.get(key, "")
        if not (found.isascii() and found.isdigit() and int(found) >= 1):
            raise Unusable(f"annotation {key}: found {found!r}, allowed is the number of an ownership epoch")
    if is_copy(etcd) and etcd.spec.backup.source_store == etcd.spec.backup.store:
        raise Unusable("spec.backup.sourceStore: it is spec.backup.store; backups can't be copied over themselves")


def agent_arguments(etcd: Etcd) -> list[str]:
    """The words of the agent's command. Raises `Unusable`."""
    check(etcd)
    backup = etcd.spec.backup
    assert backup.store is not None  # noqa: S101 - checked
    words = ["copy" if is_copy(etcd) else "server"]
    words += _store(backup.store, "--", names.BACKUP_PATH)
    if backup.source_store is not None:
        words += _store(backup.source_store, "--source-", names.SOURCE_BACKUP_PATH)
    words += _ownership(etcd, backup.store)
    words.append(f"--listen=:{agent_port(etcd)}")
    if not is_copy(etcd):
        words += [f"--etcd=http://localhost:{client_port(etcd)}", f"--data-dir={names.DATA_PATH}/new.etcd"]
        words += _backups(backup)
    return words


def agent_port(etcd: Etcd) -> int:
    """The port of the agent."""
    return etcd.spec.backup.port or names.AGENT_PORT


def client_port(etcd: Etcd) -> int:
    """The port of etcd for clients."""
    return etcd.spec.etcd.client_port or names.CLIENT_PORT


def _store(store: Store, prefix: str, credentials: str) -> Iterator[str]:
    values = {
        "storage-provider": store.provider,
        "store-container": store.container,
        "store-prefix": store.prefix,
        "store-endpoint": store.endpoint_override,
        "store-credentials": credentials if store.secret_ref is not None else None,
    }
    return (f"{prefix}{name}={value}" for name, value in values.items() if value)


def _ownership(etcd: Etcd, store: Store) -> Iterator[str]:
    """Epoch, and whose etcd it is: stores of one cluster's epochs differ in the last part of their prefixes."""
    annotations = etcd.metadata.annotations
    yield f"--epoch={int(annotations[metadata_keys.EPOCH])}"
    source = annotations.get(metadata_keys.SOURCE_EPOCH, "")
    if source.isdigit():
        yield f"--source-epoch={int(source)}"
    elif annotations.get(metadata_keys.FOUNDING) == "true":
        yield "--founding"
    yield f"--cluster={store.prefix.rpartition('/')[0] or etcd.metadata.namespace}"


def _backups(backup: Backup) -> Iterator[str]:
    values = {
        "schedule": backup.full_snapshot_schedule,
        "delta-snapshot-period": backup.delta_snapshot_period,
        "delta-snapshot-retention-period": backup.delta_snapshot_retention_period,
        "garbage-collection-policy": (backup.garbage_collection_policy or "").lower(),
        "garbage-collection-period": backup.garbage_collection_period,
        "etcd-snapshot-timeout": backup.etcd_snapshot_timeout,
    }
    return (f"--{name}={value}" for name, value in values.items() if value)
