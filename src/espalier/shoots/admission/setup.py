"""The admission of the garden as a component."""

from __future__ import annotations

from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.project import Project
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.kube.rbac import FOLLOW, Right, Rights
from espalier.runtime.component import Component, Host
from espalier.shoots.admission import handlers
from espalier.shoots.bucket_providers import BucketProviders


def garden(bucket_providers: BucketProviders) -> Component:
    """The webhooks of the garden. `bucket_providers`: what the providers of buckets declare."""

    def build(host: Host) -> None:
        if host.webhooks is not None:
            admission = handlers.Admission(host.caches, bucket_providers, unready=lambda: host.manager.unready)
            admission.serve(host.webhooks)

    rights = Rights(
        watched=(Right((Shoot.resource,), FOLLOW),),
        cluster_scoped=(Right((Seed.resource, CloudProfile.resource, Project.resource), FOLLOW),),
    )
    return Component("garden-admission", build, rights=rights, webhooks=handlers.WEBHOOKS)
