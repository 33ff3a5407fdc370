"""Extensions that create objects in the seed only: OperatingSystemConfig, ControlPlane and Network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from espalier.api.cloud import LONGEST_USER_DATA
from espalier.api.core import CONFIG_MAP, SECRET, Secret
from espalier.api.gardener.extensions.control_plane import ControlPlane
from espalier.api.gardener.extensions.network import Network
from espalier.api.gardener.extensions.operating_system_config import (
    PROVISION,
    OperatingSystemConfig,
    OperatingSystemConfigSpec,
)
from espalier.api.gardener.vocabulary.operations import ErrorCode
from espalier.api.gardener.vocabulary.reasons import ExtensionReason
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.trees import json_trees
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.owners import is_owned_by, owner_reference
from espalier.shoots.extension import Dependents, Extension, OperationFailed, Request, Result, StatelessActuator
from espalier.shoots.local_provider.cloud import TYPE

USER_DATA = "cloud_config"
"""Key of the Secret with a machine's user data."""


class OperatingSystemConfigActuator(StatelessActuator[None]):
    """Renders units and files of machines into user data, in a Secret beside the resource that owns it."""

    async def reconcile(self, request: Request[None]) -> Result[None] | Wait:
        """Write the user data of purpose `provision`; simulated machines need none of the other purpose."""
        spec = request.object.decode(OperatingSystemConfig).spec
        if spec.purpose != PROVISION:
            return Result()
        content = user_data(spec)
        if len(content) > LONGEST_USER_DATA:
            problem = f"spec.files: found {len(content)} bytes of user data, allowed: up to {LONGEST_USER_DATA}"
            raise OperationFailed(f"{problem}; use fewer or smaller files", ErrorCode.CONFIGURATION)
        name = user_data_secret(request.object)
        await write_owned(request, SECRET, name, msgspec.to_builtins(Secret(data={USER_DATA: content})))
        return Result(status={"cloudConfig": {"secretRef": {"name": name, "namespace": request.object.namespace}}})

    async def delete(self, request: Request[None]) -> Wait | None:
        """Nothing to do: the Secret is deleted with its owner."""
        return None


def user_data_secret(object_: Object) -> str:
    """The name of the Secret with the user data."""
    return f"osc-result-{object_.name}"[:253]


def _of_operating_system_config(object_: Object) -> Iterable[tuple[Resource, str]]:
    """See `Dependents.names`."""
    if object_.decode(OperatingSystemConfig).spec.purpose == PROVISION:
        yield SECRET, user_data_secret(object_)


def user_data(spec: OperatingSystemConfigSpec) -> bytes:
    """Units and files in the format of simulated machines."""
    files = [
        {"path": file.path, "content": file.content.inline.data}
        for file in spec.files
        if file.content.inline is not None
    ]
    return msgspec.json.encode({"files": files, "units": [unit.name for unit in spec.units]}, order="deterministic")


class ControlPlaneActuator(StatelessActuator[None]):
    """The configuration of a cloud controller manager. Each purpose is a resource of its own, with its own objects."""

    async def reconcile(self, request: Request[None]) -> Result[None] | Wait:
        """Write the ConfigMap of this purpose."""
        spec = request.object.decode(ControlPlane).spec
        network = json_trees.decode(spec.infrastructure_provider_status or b"{}", dict[str, Any])
        data = {"network": str(network.get("network", "")), "region": spec.region}
        await write_owned(request, CONFIG_MAP, _configuration(request.object), {"data": data})
        return Result()

    async def delete(self, request: Request[None]) -> Wait | None:
        """Nothing to do: the ConfigMap is deleted with its owner."""
        return None


def _configuration(object_: Object) -> str:
    """The name of the ConfigMap of a ControlPlane."""
    return f"cloud-provider-config-{object_.decode(ControlPlane).spec.purpose or 'normal'}"


class NetworkActuator(StatelessActuator[None]):
    """Reports the status only: simulated machines need no pod network."""

    async def reconcile(self, request: Request[None]) -> Result[None] | Wait:
        """Report the IP families."""
        families = request.object.decode(Network).spec.ip_families
        return Result(status={"ipFamilies": families} if families else {})

    async def delete(self, request: Request[None]) -> Wait | None:
        """Nothing to delete."""
        return None


async def write_owned(request: Request[Any], resource: Resource, name: str, content: Tree) -> None:
    """Create or update an object beside the resource that owns it. An object of another owner is an error.

    Its name is chosen by the extension alone, so a live read shows whether it exists.
    """
    owner, writer = request.object, request.writer
    metadata = {
        "name": name,
        "namespace": owner.namespace,
        "ownerReferences": [msgspec.to_builtins(owner_reference(owner))],
    }
    live = await request.read(resource, Key(owner.namespace, name))
    if live is None:
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        await writer.create(resource, {**content, **head, "metadata": metadata})
        return
    if not is_owned_by(live, owner):
        message = f"{resource.kind} {live.key} belongs to another owner: delete it, or find out who created it"
        raise OperationFailed(message, ErrorCode.CONFIGURATION, reason=ExtensionReason.NAME_TAKEN)
    await writer.merge(resource, live, {name: value for name, value in content.items() if name == "data"})


def extensions(secrets: Cache, config_maps: Cache) -> tuple[Extension[None], ...]:
    """The extensions of these kinds. The caches may have metadata alone."""
    return (
        Extension(
            OperatingSystemConfig.resource,
            TYPE,
            OperatingSystemConfigActuator(),
            dependents=Dependents({SECRET: secrets}, _of_operating_system_config),
        ),
        Extension(
            ControlPlane.resource,
            TYPE,
            ControlPlaneActuator(),
            dependents=Dependents({CONFIG_MAP: config_maps}, lambda object_: [(CONFIG_MAP, _configuration(object_))]),
        ),
        Extension(Network.resource, TYPE, NetworkActuator()),
    )
