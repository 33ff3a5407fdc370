"""Controllers that check SnowMachineConfigs against the devices that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusters.checks.conclusions import Inquiry, Judgement, Request
from espalier.clusters.checks.configs import Configs, NewEndpoint, Use, versions_of
from espalier.clusters.checks.controller import Api
from espalier.clusters.checks.questions import Credentials, Server
from espalier.providers.snow import references
from espalier.providers.snow.checks import findings
from espalier.providers.snow.checks.questions import REACHABLE, Answers, Asked, LookUp
from espalier.providers.snow.kinds import SnowDatacenterConfig, SnowMachineConfig


def configs(look_up: LookUp) -> Configs[SnowDatacenterConfig, SnowMachineConfig, Asked, Answers]:
    """The configs to check against devices."""
    return Configs(
        "snow",
        SnowDatacenterConfig,
        SnowMachineConfig,
        Api(look_up, REACHABLE, _credentials),
        accounts=lambda config: (_account(config),),
        place=_account,
        of_datacenter=_of_datacenter,
        of_machines=lambda _host: _of_machines,
    )


def _credentials(data: Mapping[str, bytes], asked: Asked) -> Credentials:
    """The keys for a device. Without a profile, nothing is sent, and the login counts as refused."""
    return Credentials(*references.keys_of(data, asked.server.host), authorities=references.authorities(data))


def _account(config: SnowDatacenterConfig) -> Key:
    return Key(SYSTEM_NAMESPACE, references.credentials_of(config.spec))


def _of_datacenter(config: SnowDatacenterConfig, new: Sequence[NewEndpoint]) -> Inquiry[Asked, Answers]:
    """Nothing to ask: devices do not know the addresses of direct network interfaces."""
    addresses = {one.key: one.holder for one in new}

    def judge(_told: Sequence[Answers | None]) -> Judgement:
        return Judgement(msgspec.structs.replace(config.status, addresses=addresses), (), any(addresses.values()))

    return Inquiry((), judge)


def _of_machines(config: SnowMachineConfig, uses: Sequence[Use[SnowDatacenterConfig]]) -> Inquiry[Asked, Answers]:
    """Check a machine config against each device, because machines may run on any of them."""
    spec, account = config.spec, _account(uses[0].datacenter)
    versions = versions_of(config.metadata.name, uses)

    def judge(told: Sequence[Answers | None]) -> Judgement:
        status = msgspec.structs.replace(config.status, kubernetes_versions=versions)
        return Judgement(status, list(findings.judge_machines(spec, told)))

    return Inquiry(
        [
            Request(Asked(Server(device.lower()), images=bool(spec.ami_id)), account, f"spec.devices[{index}]")
            for index, device in enumerate(spec.devices)
        ],
        judge,
    )
