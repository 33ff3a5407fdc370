"""The admission of the garden as a component."""

from __future__ import annotations

from espalier.api.gardener.cloud_profile import CloudProfile
from espalier.api.gardener.project import Project
from espalier.api.gardener.seed import Seed
from espalier.api.gardener.shoot import Shoot
from espalier.kube.rbac import FOLLOW, Right, Rights
from espalier.runtime.component import Component, Host
from espalier.shoots.admission import handlers


def garden() -> Component:
    """The webhooks of the garden."""

    def build(host: Host) -> None:
        if host.webhooks is not None:
            handlers.Admission(host.caches, unready=lambda: host.manager.unready).serve(host.webhooks)

    rights = Rights(
        watched=(Right((Shoot.resource,), FOLLOW),),
        cluster_scoped=(Right((Seed.resource, CloudProfile.resource, Project.resource), FOLLOW),),
    )
    return Component("garden-admission", build, rights=rights, webhooks=handlers.WEBHOOKS)
