"""Reasons for a Cluster to wait, from the results of checks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from espalier.api.eksa import cluster as eksa
from espalier.clusters.checks.problems import MACHINES_INVALID
from espalier.clusters.provider import NOT_CHECKED
from espalier.kube.objects import Object
from espalier.providers.tinkerbell.kinds import TinkerbellMachineConfig
from espalier.runtime.outcome import Wait


def problems(cluster: eksa.Cluster, children: Sequence[Object], _is_new: bool) -> Iterator[Wait]:
    """Why a Cluster must wait: its current spec was not judged yet with a machine config, or Hardware is lacking."""
    for child in children:
        if child.kind != TinkerbellMachineConfig.resource.kind:
            continue
        status, name = child.decode(TinkerbellMachineConfig).status, f"{child.kind} {child.name}"
        found = next((one for one in status.clusters if one.name == cluster.metadata.name), None)
        is_judged = found is not None and found.generation == cluster.metadata.generation
        if status.spec_valid is False and status.observed_generation == child.metadata.generation:
            yield Wait(MACHINES_INVALID, f"{name}: {status.failure_message}")
        elif found is None or not is_judged or status.observed_generation != child.metadata.generation:
            yield Wait(NOT_CHECKED, f"waiting for {name} to be checked against the Hardware that it selects")
        elif found.reason:
            yield Wait(found.reason, f"{name}: {found.message}")
