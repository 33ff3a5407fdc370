"""CustomResourceDefinitions: waiting until an API server serves them."""

from __future__ import annotations

from collections.abc import Set
from contextlib import aclosing

from espalier.api import conditions
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.meta import Observed
from espalier.kube.client import Client
from espalier.kube.objects import Object


class _Condition(Observed, frozen=True):
    type: str
    status: str


class _ServedStatus(Observed, frozen=True):
    conditions: list[_Condition] | None = None  # null in a CRD that was just created


class _Served(Observed, frozen=True):
    """The status of a CustomResourceDefinition."""

    status: _ServedStatus = _ServedStatus()


async def until_established(client: Client, definitions: Set[str]) -> None:
    """Wait until the server serves all CustomResourceDefinitions with these names."""
    missing = set(definitions)
    listed = await client.list(CUSTOM_RESOURCE_DEFINITION)
    missing -= {crd.name for crd in listed.items if _is_established(crd)}
    while missing:
        events = client.watch(CUSTOM_RESOURCE_DEFINITION, resource_version=listed.resource_version)
        async with aclosing(events):
            async for event in events:
                if event.type != "BOOKMARK" and _is_established(event.object):
                    missing.discard(event.object.name)
                if not missing:
                    return


def _is_established(crd: Object) -> bool:
    return conditions.is_true(crd.decode(_Served).status.conditions or [], "Established")
