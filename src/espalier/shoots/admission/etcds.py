"""Etcds in seeds: those that can't be run are rejected. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.gardener.etcd import Etcd
from espalier.api.violations import Violation
from espalier.shoots.admission import messages


def violations(etcd: Etcd) -> Iterator[Violation]:
    """The problems of an Etcd."""
    if etcd.spec.replicas > 1:
        yield Violation("spec.replicas", str(etcd.spec.replicas), "0 or 1", messages.REPLICAS)
    store, source = etcd.spec.backup.store, etcd.spec.backup.source_store
    if source is None:
        return
    if store is None:
        yield Violation("spec.backup.store", "nothing", "", messages.SOURCE_STORE_ALONE)
    elif (store.provider, store.container, store.prefix) == (source.provider, source.container, source.prefix):
        yield Violation("spec.backup.sourceStore", source.prefix or str(source.container), "", messages.SAME_STORE)
