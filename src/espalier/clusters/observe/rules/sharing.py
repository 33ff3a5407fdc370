"""Rules about linked objects that several Clusters reference.

Clusters of one namespace may share linked objects: these are deleted with the last Cluster. The management cluster
shares none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from espalier.api.eksa import cluster as eksa
from espalier.api.resource import Key
from espalier.api.text.violations import Violation
from espalier.clusters.observe.references import references
from espalier.clusters.observe.rules import messages


def violations(old: eksa.Cluster | None, new: eksa.Cluster, management: eksa.Cluster | None) -> Iterator[Violation]:
    """A workload cluster must not reference objects of the management cluster. An unchanged reference is not checked
    again.
    """
    if management is None:
        return
    theirs, before = linked(management), linked(old) if old is not None else set()
    for field, reference in references(new.spec):
        link = (reference.kind, Key(new.metadata.namespace, reference.name))
        if link in theirs and link not in before:
            where = Key(management.metadata.namespace, management.metadata.name)
            yield Violation(f"{field}.name", reference.name, "", messages.used_by_the_management_cluster(where))


def of_record(
    old: eksa.Cluster | None,
    new: eksa.Cluster,
    managed: Sequence[eksa.Cluster],
    names_of: Callable[[Iterable[object]], str] = messages.listed,
) -> Iterator[Violation]:
    """The record of the management cluster must not reference objects of clusters that it manages."""
    before = linked(old) if old is not None else set()
    for field, reference in references(new.spec):
        link = (reference.kind, Key(new.metadata.namespace, reference.name))
        users = [cluster for cluster in managed if link in linked(cluster)]
        if users and link not in before:
            listed = names_of(Key(user.metadata.namespace, user.metadata.name) for user in users)
            yield Violation(f"{field}.name", reference.name, "", messages.shared_with_workload_clusters(listed))


def linked(cluster: eksa.Cluster) -> set[tuple[str, Key]]:
    """The kinds and names of the objects that a Cluster links."""
    namespace = cluster.metadata.namespace
    return {(reference.kind, Key(namespace, reference.name)) for _, reference in references(cluster.spec)}
