"""A management cluster with all that a manager needs."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.kinds import KubeObject
from espalier.cli.local.environment.management import make_record, prepare_kinds
from espalier.kube.client import Client
from espalier.releases import Releases


async def prepare(client: Client, releases: Releases, kinds: Sequence[type[KubeObject]]) -> None:
    """Namespace, CRDs of the `kinds`, releases, and the management Cluster.

    Returns once all of it is served. Releases and management Cluster that are there stay as they are.
    """
    await prepare_kinds(client, releases, kinds)
    await make_record(client, releases)
