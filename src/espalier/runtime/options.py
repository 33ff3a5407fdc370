"""Options that all controllers of a process share: its part of the objects."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import msgspec

WATCH_FILTER_LABEL = "cluster.x-k8s.io/watch-filter"
"""Cluster API's label by which objects are divided among managers."""

_LEASE_NAME_LIMIT = 200


class Options(msgspec.Struct, frozen=True):
    """`--controllers`, `--namespace` (repeatable) and `--watch-filter`. By default, everything is selected.

    `controllers` is as for kube-controller-manager: names, `*` for all, `-name` to exclude one.
    """

    controllers: tuple[str, ...] = ("*",)
    namespaces: tuple[str, ...] = ()
    watch_filter: str = ""

    def enables(self, controller: str) -> bool:
        """True if the controller with this name is enabled."""
        if f"-{controller}" in self.controllers:
            return False
        return controller in self.controllers or "*" in self.controllers

    @property
    def labels(self) -> str:
        """The label selector of the objects; empty without a filter."""
        return f"{WATCH_FILTER_LABEL}={self.watch_filter}" if self.watch_filter else ""

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """True if what has these labels, and is made for an object of this namespace, is in this part."""
        is_watched = not self.namespaces or namespace in self.namespaces
        return is_watched and (not self.watch_filter or labels.get(WATCH_FILTER_LABEL) == self.watch_filter)

    def lease_name(self, base: str) -> str:
        """The name of the Lease, which differs by options, so that managers with different ones run side by side."""
        if self == Options():
            return base
        parts = [*sorted(self.namespaces), self.watch_filter, *(() if self.controllers == ("*",) else self.controllers)]
        slug = re.sub("[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")[: _LEASE_NAME_LIMIT - len(base)]
        share = "\0".join((",".join(sorted(self.namespaces)), self.watch_filter, *sorted(self.controllers)))
        return f"{base}-{slug}-{hashlib.sha256(share.encode()).hexdigest()[:6]}"
