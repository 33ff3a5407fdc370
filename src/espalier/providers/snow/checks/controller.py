"""Controllers that check SnowMachineConfigs against the devices that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusters.report.checks.conclusions import CheckPlan, Evaluation, Request
from espalier.clusters.report.checks.configs import Configs, NewEndpoint, Use, versions_of
from espalier.clusters.report.checks.controller import Api
from espalier.clusters.report.checks.questions import Credentials, Server
from espalier.providers.snow import references
from espalier.providers.snow.checks import findings
from espalier.providers.snow.checks.questions import REACHABLE, Answers, LookUp, Query
from espalier.providers.snow.kinds import SnowDatacenterConfig, SnowMachineConfig


def configs(look_up: LookUp) -> Configs[SnowDatacenterConfig, SnowMachineConfig, Query, Answers]:
    """The configs to check against devices."""
    return Configs(
        "snow",
        SnowDatacenterConfig,
        SnowMachineConfig,
        Api(look_up, REACHABLE, _credentials),
        accounts=lambda config: (_credentials_secret(config),),
        place=_credentials_secret,
        of_datacenter=_of_datacenter,
        of_machines=lambda _host: _of_machines,
    )


def _credentials(data: Mapping[str, bytes], query: Query) -> Credentials:
    """The keys for a device. Without a profile, nothing is sent, and the login counts as refused."""
    return Credentials(*references.keys_of(data, query.server.host), authorities=references.authorities(data))


def _credentials_secret(config: SnowDatacenterConfig) -> Key:
    return Key(SYSTEM_NAMESPACE, references.credentials_of(config.spec))


def _of_datacenter(config: SnowDatacenterConfig, new: Sequence[NewEndpoint]) -> CheckPlan[Query, Answers]:
    """Nothing to ask: devices do not know the addresses of direct network interfaces."""
    addresses = {endpoint.key: endpoint.holder for endpoint in new}

    def evaluate(_answers: Sequence[Answers | None]) -> Evaluation:
        return Evaluation(msgspec.structs.replace(config.status, addresses=addresses), (), any(addresses.values()))

    return CheckPlan((), evaluate)


def _of_machines(config: SnowMachineConfig, uses: Sequence[Use[SnowDatacenterConfig]]) -> CheckPlan[Query, Answers]:
    """Check a machine config against each device, because machines may run on any of them."""
    spec, account = config.spec, _credentials_secret(uses[0].datacenter)
    versions = versions_of(config.metadata.name, uses)

    def evaluate(device_answers: Sequence[Answers | None]) -> Evaluation:
        status = msgspec.structs.replace(config.status, kubernetes_versions=versions)
        return Evaluation(status, list(findings.judge_machines(spec, device_answers)))

    return CheckPlan(
        [
            Request(Query(Server(device.lower()), images=bool(spec.ami_id)), account, f"spec.devices[{index}]")
            for index, device in enumerate(spec.devices)
        ],
        evaluate,
    )
