"""Extensions that create objects in the seed only: OperatingSystemConfig, ControlPlane and Network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from espalier.api.cloud import LONGEST_USER_DATA
from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.gardener.extensions.control_plane import ControlPlane, ControlPlaneSpec
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
from espalier.kube.errors import UNREADABLE
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.owners import is_owned_by, owner_reference
from espalier.shoots.extension import (
    Dependents,
    Extension,
    OperationFailed,
    Request,
    Result,
    StatelessActuator,
    data_digest,
    has_digest,
)
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
        await write_owned(request, SECRET, name, {"data": _stored(content)})
        return Result(status={"cloudConfig": {"secretRef": {"name": name, "namespace": request.object.namespace}}})

    async def delete(self, request: Request[None]) -> Wait | None:
        """Nothing to do: the Secret is deleted with its owner."""
        return None


def _stored(content: bytes) -> dict[str, str]:
    """The data of the Secret with the user data, as API servers store them."""
    data: dict[str, str] = msgspec.to_builtins({USER_DATA: content})
    return data


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
        await write_owned(request, CONFIG_MAP, _configuration(request.object), {"data": _configured(spec)})
        return Result()

    async def delete(self, request: Request[None]) -> Wait | None:
        """Nothing to do: the ConfigMap is deleted with its owner."""
        return None


def _configured(spec: ControlPlaneSpec) -> dict[str, str]:
    """The data of the ConfigMap of a ControlPlane."""
    network = json_trees.decode(spec.infrastructure_provider_status or b"{}", dict[str, Any])
    return {"network": str(network.get("network", "")), "region": spec.region}


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
    await writer.merge(resource, live, {"data": replacing(live, content["data"])})


def replacing(live: Object, data: Mapping[str, str]) -> Tree:
    """The patch of `data` that leaves nothing else there."""
    return {**dict.fromkeys(live.tree.get("data") or ()), **data}


def _is_config_edited(secrets: Cache, object_: Object) -> bool:
    """See `Dependents.are_edited`."""
    spec = object_.decode(OperatingSystemConfig).spec
    key, wanted = Key(object_.namespace, user_data_secret(object_)), data_digest(_stored(user_data(spec)))
    return spec.purpose == PROVISION and not has_digest(secrets, key, wanted)


def _is_control_plane_edited(config_maps: Cache, object_: Object) -> bool:
    """See `Dependents.are_edited`. A spec that can't be read is reported by its reconcile."""
    try:
        wanted = data_digest(_configured(object_.decode(ControlPlane).spec))
    except UNREADABLE:
        return False
    return not has_digest(config_maps, Key(object_.namespace, _configuration(object_)), wanted)


def extensions(secrets: Cache, config_maps: Cache) -> tuple[Extension[None], ...]:
    """The extensions of these kinds. The caches have transform `with_digest`, or metadata alone."""
    return (
        Extension(
            OperatingSystemConfig.resource,
            TYPE,
            OperatingSystemConfigActuator(),
            dependents=Dependents(
                {SECRET: secrets}, _of_operating_system_config, lambda object_: _is_config_edited(secrets, object_)
            ),
        ),
        Extension(
            ControlPlane.resource,
            TYPE,
            ControlPlaneActuator(),
            dependents=Dependents(
                {CONFIG_MAP: config_maps},
                lambda object_: [(CONFIG_MAP, _configuration(object_))],
                lambda object_: _is_control_plane_edited(config_maps, object_),
            ),
        ),
        Extension(Network.resource, TYPE, NetworkActuator()),
    )
