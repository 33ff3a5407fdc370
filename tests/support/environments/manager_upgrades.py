"""A second manager, of another release or options: whether it writes more than statuses."""

from __future__ import annotations

from espalier.apiserver.storage.store import Change

RESYNC = 60.0


def is_content(change: Change) -> bool:
    """True if more than a status was written, to anything but Leases and events."""
    if change.table in ("events", "leases.coordination.k8s.io"):
        return False
    before, after = (item.tree if item is not None else {} for item in (change.before, change.after))

    def content(tree: dict[str, object]) -> dict[str, object]:
        metadata = dict(tree.get("metadata", {}))  # type: ignore[call-overload]
        for name in ("managedFields", "resourceVersion"):
            metadata.pop(name, None)
        return {name: value for name, value in tree.items() if name != "status"} | {"metadata": metadata}

    return change.deleted or content(before) != content(after)
