"""Infrastructure: one network for each shoot, and a state like Terraform's."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

from espalier.api.cloud import CallCloud, Network
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.meta import Observed
from espalier.api.trees import json_trees
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.extension import Extension, Request, Result, SavedState, StateInvalid
from espalier.shoots.local_provider.cloud import TYPE, Cloud, cloud_of

DEFAULT_WORKERS = "10.250.0.0/16"
NETWORK = "network"


class StateResource(Struct, frozen=True):
    """A created resource."""

    type: str
    name: str
    id: Annotated[str, Meta(min_length=1)]


class TerraformState(Struct, frozen=True):
    """All resources of a shoot. The serial increases with each change."""

    lineage: str
    serial: Annotated[int, Meta(ge=0)] = 0
    resources: list[StateResource] = msgspec.field(default_factory=list)
    version: int = 4

    @property
    def network(self) -> str:
        """ID of the network; empty if none was created yet."""
        return next((resource.id for resource in self.resources if resource.type == NETWORK), "")

    def with_network(self, network: Network) -> TerraformState:
        """The state with this network; itself if it has it."""
        if self.network == network.id:
            return self
        resource = StateResource(NETWORK, "workers", network.id)
        return structs.replace(self, serial=self.serial + 1, resources=[resource])


class _Networks(Observed, frozen=True):
    workers: str = DEFAULT_WORKERS


class InfrastructureConfig(Observed, frozen=True):
    """`spec.providerConfig`."""

    networks: _Networks = _Networks()


class InfrastructureActuator:
    """Creates the network of a shoot, finds it again by its tag, and adopts it by the state."""

    def __init__(self, call: CallCloud) -> None:
        self._call = call

    async def reconcile(self, request: Request[TerraformState]) -> Result[TerraformState] | Wait:
        """Create the network, unless there is one with the shoot's tag, which a lost attempt may have created."""
        cloud, config = await self._begin(request)
        state = request.state or TerraformState(lineage=request.object.metadata.uid)
        networks = await cloud.networks()
        network = next(
            (candidate for candidate in networks if candidate.id == state.network), networks[0] if networks else None
        )
        if network is None:
            wanted = Network(name=request.object.namespace, tags=cloud.tags, cidr=config.networks.workers)
            network = await cloud.create(wanted)
            await request.save(state.with_network(network))
        return _result(state.with_network(network), network)

    async def restore(self, request: Request[TerraformState]) -> Result[TerraformState] | Wait:
        """Adopt the network in the state, which must exist and have the shoot's tag. That of a shoot that is being
        deleted may be gone."""
        cloud, config = await self._begin(request)
        state = request.state
        if state is None or not state.network:
            raise StateInvalid("status.state: found no network in it; allowed: the state that the source seed saved")
        network = next((candidate for candidate in await cloud.networks() if candidate.id == state.network), None)
        if network is None and request.is_of_deleted_shoot:
            network = Network(id=state.network, name=request.object.namespace, cidr=config.networks.workers)
        if network is None:
            raise StateInvalid(
                f"status.state: the shoot has no network {state.network[:60]} in the cloud, and no new one is "
                "created: correct the state, or the credentials if they belong to another account"
            )
        return _result(state, network)

    async def migrate(self, object: Object, writer: Writer) -> Wait | None:
        """The state is saved after each change; there is nothing in the seed to remove."""
        return None

    async def delete(self, request: Request[TerraformState]) -> Wait | None:
        """Delete the shoot's networks."""
        cloud, _ = await self._begin(request)
        for network in await cloud.networks():
            await cloud.delete(network)
        return None

    async def _begin(self, request: Request[TerraformState]) -> tuple[Cloud, InfrastructureConfig]:
        spec = request.object.decode(Infrastructure).spec
        config = json_trees.decode(spec.provider_config or b"{}", InfrastructureConfig)
        cloud = await cloud_of(request, self._call, spec.secret_ref, Infrastructure.resource)
        return cloud, config


def _result(state: TerraformState, network: Network) -> Result[TerraformState]:
    status: dict[str, Any] = {
        "providerStatus": {"network": network.id},
        "nodesCIDR": network.cidr,
        "networking": {"nodes": [network.cidr]},
    }
    return Result(state, status)


def extension(call: CallCloud) -> Extension[TerraformState]:
    """The extension for Infrastructure."""
    state = SavedState(TerraformState, as_text=True)
    return Extension(Infrastructure.resource, TYPE, InfrastructureActuator(call), state)
