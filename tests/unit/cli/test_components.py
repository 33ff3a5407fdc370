"""The components of a manager do what they declare."""

from __future__ import annotations

import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.upgrades import FrontEnd
from espalier.cli.programs import components
from espalier.providers.kinds import EKSA_KINDS
from espalier.providers.registry import PROVIDERS
from espalier.runtime.clock import SystemClock
from espalier.runtime.component import Component, assemble, kinds
from espalier.runtime.manager import Manager
from espalier.runtime.servers.admission import AdmissionWebhook
from espalier.runtime.servers.webhooks import Webhooks
from tests.support.servers.small_server import SmallServer, client_of


def manager_of_nothing() -> Manager:
    return Manager(client_of(SmallServer()), clock=SystemClock())


@pytest.mark.parametrize("front_end", list(FrontEnd))
async def test_component_has_caches_of_its_declared_kinds(front_end: FrontEnd) -> None:
    for component in components.of_manager(PROVIDERS, front_end=front_end):
        manager = manager_of_nothing()
        assemble(manager, [component], webhooks=Webhooks(port=None))
        cached = {cache.source.resource for cache in manager.caches.all}
        assert cached <= component.rights.kinds | component.shared.kinds, component.name


async def test_answered_webhooks_are_declared() -> None:
    for component in components.of_manager(PROVIDERS):
        webhooks = Webhooks(port=None)
        assemble(manager_of_nothing(), [component], webhooks=webhooks)
        assert set(webhooks.paths) == {webhook.path for webhook in component.webhooks}


async def test_declared_webhook_needs_a_handler() -> None:
    webhook = AdmissionWebhook("validate", CONFIG_MAP, "/validate-nothing")
    silent = Component("silent", webhooks=(webhook,))
    with pytest.raises(ValueError, match="component silent serves no webhook at /validate-nothing"):
        assemble(manager_of_nothing(), [silent], webhooks=Webhooks(port=None))


def test_kinds_of_this_build_have_one_component_each() -> None:
    assert kinds(components.of_manager(PROVIDERS)) == EKSA_KINDS
