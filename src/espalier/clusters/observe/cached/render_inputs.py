"""The render inputs of the latest reconciles, which hold what was rendered from them."""

from __future__ import annotations

from collections import OrderedDict

from espalier.api.resource import Key
from espalier.clusters.design.provider import RenderInput

SIZE = 64
"""The number of clusters: more than are reconciled at once, and a few MiB."""


class RenderInputs:
    """Render inputs by cluster, those of the last `size` that were asked for."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._latest: OrderedDict[Key, RenderInput] = OrderedDict()

    def shared(self, made: RenderInput) -> RenderInput:
        """The render input of the cluster's last reconcile if it equals this one: its objects are rendered already."""
        earlier = self._latest.get(made.key)
        latest = earlier if earlier is not None and earlier == made else made
        self._latest[made.key] = latest
        self._latest.move_to_end(made.key)
        if len(self._latest) > self._size:
            self._latest.popitem(last=False)
        return latest

    def forget(self, key: Key) -> None:
        """Drop the render input of a cluster that is gone: it holds credentials."""
        self._latest.pop(key, None)
