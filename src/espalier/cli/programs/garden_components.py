"""The components of a garden, and of the gardenlet of a seed: every program that runs them is made of these."""

from __future__ import annotations

from espalier.api.core import VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.cli.programs.webhook_configurations import webhook_tree
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.runtime.component import Component
from espalier.shoots.admission import setup as admission
from espalier.shoots.bucket_providers import PUBLIC_CLOUDS, BucketProviders
from espalier.shoots.control_plane.programs import ControlPlane
from espalier.shoots.etcd import setup as etcds
from espalier.shoots.garden import setup as garden
from espalier.shoots.garden.config import GardenConfig
from espalier.shoots.gardenlet import setup as gardenlet
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.gardenlet.context import Call, Connect, ReadBackup, ShootAPIs
from espalier.shoots.local_provider import backups as local_buckets

VALIDATING_WEBHOOKS = "espalier-garden-validating-webhook-configuration"
SERVICE = "espalier-garden-webhook-service"
BUCKET_PROVIDERS: BucketProviders = {**PUBLIC_CLOUDS, **local_buckets.DECLARED}


_APPLY = "apply the output of `espalier manifests --of garden` (in seeds `--of seed`), which"


def hint(resource: Resource, error: Exception) -> str:
    """A hint for operators if a kind or permission is missing in a garden or seed; empty if there is none."""
    if isinstance(error, Forbidden):
        return "in the garden, `espalier garden` grants gardenlets their permissions once the Seed exists"
    if not isinstance(error, NotFound):
        return ""
    if str(error).startswith('namespaces "'):
        return f"{_APPLY} creates the namespace"
    return f"{_APPLY} defines it" if resource.group.endswith("gardener.cloud") else ""


def of_garden(config: GardenConfig | None = None) -> tuple[Component, ...]:
    """The components of a garden: its controllers, and its admission where webhooks are served."""
    return (garden.component(config), admission.garden(BUCKET_PROVIDERS))


def webhook_configuration(url: str = "") -> Tree:
    """The webhooks of a garden, reached at `url`, or at their Service when that is empty. They fail closed."""
    asked = [webhook for component in of_garden() for webhook in component.webhooks]
    metadata = {"name": VALIDATING_WEBHOOKS}
    return {
        "apiVersion": VALIDATING_WEBHOOK_CONFIGURATION.api_version,
        "kind": VALIDATING_WEBHOOK_CONFIGURATION.kind,
        "metadata": metadata,
        "webhooks": [webhook_tree(url, webhook, SERVICE) for webhook in asked],
    }


def of_gardenlet(
    config: GardenletConfig,
    *,
    to_garden: Client,
    call: Call,
    read_backup: ReadBackup | None = None,
    connect: Connect | None = None,
    shoots: ShootAPIs | None = None,
    random_keys: bool = True,
) -> tuple[Component, ...]:
    """The components of a seed: the gardenlet, and the controller of Etcds."""
    flows = gardenlet.component(
        config,
        garden=to_garden,
        renderer=ControlPlane(),
        call=call,
        bucket_providers=BUCKET_PROVIDERS,
        read_backup=read_backup,
        connect=connect,
        shoots=shoots,
        random_keys=random_keys,
    )
    return (flows, etcds.component(timing=config.timing))
