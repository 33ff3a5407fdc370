"""Checks of CloudStackDatacenterConfigs and CloudStackMachineConfigs against their CloudStacks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusters import addresses as ip
from espalier.clusters.checks.conclusions import CheckPlan, Evaluation, Request
from espalier.clusters.checks.configs import Configs, NewEndpoint, Use, versions_of
from espalier.clusters.checks.controller import Api
from espalier.clusters.checks.questions import Credentials
from espalier.providers.cloudstack import references
from espalier.providers.cloudstack.checks import findings
from espalier.providers.cloudstack.checks.questions import REACHABLE, Answers, LookUp, Query, Question, api_of, place_of
from espalier.providers.cloudstack.kinds import AvailabilityZone, CloudStackDatacenterConfig, CloudStackMachineConfig


def configs(look_up: LookUp) -> Configs[CloudStackDatacenterConfig, CloudStackMachineConfig, Query, Answers]:
    """The configs to check against CloudStacks."""
    return Configs(
        "cloudstack",
        CloudStackDatacenterConfig,
        CloudStackMachineConfig,
        Api(look_up, REACHABLE, _credentials),
        accounts=_accounts,
        place=_place,
        of_datacenter=_of_datacenter,
        of_machines=lambda _host: _of_machines,
    )


def _credentials(data: Mapping[str, bytes], query: Query) -> Credentials:
    """The keys, if the Secret has this URL: Cluster API's provider uses them at the URL in the Secret.

    Without keys, nothing is sent, and the login counts as refused.
    """
    url, key, secret, verify = (
        data.get(field, b"").decode("utf-8", "replace")
        for field in (references.API_URL, references.API_KEY, references.SECRET_KEY, references.VERIFY_SSL)
    )
    if url != query.server.url or not key or not secret:
        return Credentials("", "")
    return Credentials(key, secret, insecure=verify.strip().lower() == "false")


def _account(zone: AvailabilityZone) -> Key:
    return Key(SYSTEM_NAMESPACE, references.credentials_of(zone))


def _accounts(config: CloudStackDatacenterConfig) -> Collection[Key]:
    return {_account(one) for one in references.availability_zones(config.spec)}


def _place(config: CloudStackDatacenterConfig) -> object:
    return references.availability_zones(config.spec)


def _request(zone: AvailabilityZone, query: Query) -> Request[Query]:
    return Request(query, _account(zone), f"availability zone {zone.name}")


def _of_datacenter(config: CloudStackDatacenterConfig, new: Sequence[NewEndpoint]) -> CheckPlan[Query, Answers]:
    zones = findings.zones_of(config.spec)
    endpoints = {one: _address(one.place) for one in new}
    addresses = frozenset(one for one in endpoints.values() if one is not None)

    def request(zone: AvailabilityZone) -> Request[Query]:
        network = findings.network_of(zone)
        return _request(zone, Query(api_of(zone), place_of(zone), frozenset({network}), network, addresses))

    def evaluate(told: Sequence[Answers | None]) -> Evaluation:
        heard = [(of, answers) for of, answers in zip(zones, told, strict=True) if answers is not None]
        wrong = [one for of, answers in heard for one in findings.judge_zone(of, answers)]
        found = {
            one.key: one.holder or next((held for _, of in heard if address and (held := of.holders.get(address))), "")
            for one, address in endpoints.items()
        }
        if len(heard) < len(zones):  # that an address is free is known when all were asked
            found = {key: holder for key, holder in found.items() if holder}
        status = msgspec.structs.replace(config.status, addresses=found)
        return Evaluation(status, wrong, any(found.values()))

    return CheckPlan([request(one.zone) for one in zones], evaluate)


def _address(place: ip.Place) -> tuple[str, int] | None:
    """The address and the port of an endpoint; None for a name, which may resolve to any address."""
    return (place.host, int(place.port)) if ip.parsed(place.host) is not None else None


def _of_machines(
    config: CloudStackMachineConfig, uses: Sequence[Use[CloudStackDatacenterConfig]]
) -> CheckPlan[Query, Answers]:
    """Check a machine config in each availability zone of the datacenter of its Clusters."""
    zones = references.availability_zones(uses[0].datacenter.spec)
    versions = versions_of(config.metadata.name, uses)
    questions: frozenset[Question] = frozenset(findings.of_machines(config.spec).values())

    def evaluate(told: Sequence[Answers | None]) -> Evaluation:
        heard = [(zone, answers) for zone, answers in zip(zones, told, strict=True) if answers is not None]
        wrong = [one for zone, answers in heard for one in findings.judge_machines(config.spec, zone, answers)]
        if len(heard) < len(zones):
            return Evaluation(config.status, wrong)
        names = [one.name for one in zones]
        status = msgspec.structs.replace(config.status, kubernetes_versions=versions, availability_zones=names)
        return Evaluation(status, wrong)

    return CheckPlan([_request(one, Query(api_of(one), place_of(one), questions)) for one in zones], evaluate)
