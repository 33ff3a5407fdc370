"""Objects of each kind that a garden of ours and Gardener's API server both accept, and changes to them."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

from espalier.api.gardener.extensions.extension import Extension
from espalier.api.gardener.garden.backups import BackupBucket
from espalier.api.gardener.garden.controller_registration import ControllerRegistration
from espalier.api.gardener.garden.differences import Case
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.meta import Tree
from espalier.cli.local.environment.garden import garden_objects
from espalier.cli.local.environment.garden.gardens import RESOURCES
from espalier.kube.client import Client
from espalier.kube.errors import AlreadyExists, Forbidden, Invalid, KubeError
from tests.support.waiting import eventually

DOMAIN, HOME, VERSION = "internal.example.com", "garden-dev", "1.35.4"
PRESENT: tuple[Tree, ...] = (
    garden_objects.namespace("garden"),
    *garden_objects.project("dev"),
    *garden_objects.cloud_account(HOME, {"account": "demo"}),
    garden_objects.cloud_profile(),
    garden_objects.registration(),
    *garden_objects.seed("east", DOMAIN),
    garden_objects.shoot("plum", HOME, version=VERSION, nodes=(1, 2)),
)
"""Objects that the judged ones name."""


async def prepare(client: Client) -> None:
    """Create what is to be there, in a garden whose admission may have just started."""
    for body in PRESENT:

        async def is_made(body: Tree = body) -> bool:
            with suppress(AlreadyExists):
                await client.create(RESOURCES[body["kind"]], body)
            return True

        await eventually(is_made, despite=KubeError, every=0.2)


async def judged(client: Client, case: Case) -> str:
    """The refusal of a case; empty if it is accepted."""
    body = _changed((await objects(client))[case.kind], case.change)
    try:
        await client.create(RESOURCES[body["kind"]], body, dry_run=True)
    except (Invalid, Forbidden) as refusal:
        return str(refusal)
    except KubeError as refusal:  # Gardener answers some wrong fields with an internal error
        return str(refusal)
    return ""


async def objects(client: Client) -> dict[str, Tree]:
    """An object of each kind that both accept."""
    project = garden_objects.project("other")[1]
    profile = garden_objects.cloud_profile()
    profile["metadata"] = {"name": "other"}
    registration = garden_objects.registration()
    registration["metadata"] = {"name": "other"}
    registration["spec"] = {"resources": [{"kind": Extension.resource.kind, "type": "other"}]}
    binding = garden_objects.cloud_account(HOME, {})[1]
    binding["metadata"] = {"name": "other", "namespace": HOME}
    seed = garden_objects.seed("south", DOMAIN)[-1]
    credentials = seed["spec"]["backup"]["credentialsRef"]
    credentials["name"] = "backup-east"
    bucket = {"provider": {"type": "local", "region": "here"}, "seedName": "east", "credentialsRef": credentials}
    shoot = garden_objects.shoot("pear", HOME, version=VERSION, nodes=(1, 2), seedName="east")
    owner = await client.get(Shoot.resource, "plum", HOME)
    reference = {
        "apiVersion": Shoot.resource.api_version,
        "kind": Shoot.resource.kind,
        "name": owner.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }
    state: Tree = {
        "apiVersion": ShootState.resource.api_version,
        "kind": ShootState.resource.kind,
        "metadata": {"name": "plum", "namespace": HOME, "ownerReferences": [reference]},
        "gardenlet": {"secrets": [{"name": "ca", "data": {}}]},
    }
    api = {"apiVersion": BackupBucket.resource.api_version, "kind": BackupBucket.resource.kind}
    backups: Tree = {**api, "metadata": {"name": "bucket"}, "spec": bucket}
    assert registration["kind"] == ControllerRegistration.resource.kind
    return {body["kind"]: body for body in (project, profile, registration, binding, seed, shoot, state, backups)}


def _changed(tree: Any, patch: Any) -> Any:
    """An object after a merge patch."""
    if not isinstance(patch, dict):
        return patch
    changed = copy.deepcopy(tree) if isinstance(tree, dict) else {}
    for name, value in patch.items():
        if value is None:
            changed.pop(name, None)
        else:
            changed[name] = _changed(changed.get(name), value)
    return changed
