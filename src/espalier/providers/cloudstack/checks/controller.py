"""Checks of CloudStackDatacenterConfigs and CloudStackMachineConfigs against their CloudStacks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusters.design import addresses as ip_addresses
from espalier.clusters.report.checks.conclusions import CheckPlan, Evaluation, Request
from espalier.clusters.report.checks.configs import Configs, NewEndpoint, Use, versions_of
from espalier.clusters.report.checks.controller import Api
from espalier.clusters.report.checks.questions import Credentials
from espalier.providers.cloudstack import references
from espalier.providers.cloudstack.checks import findings
from espalier.providers.cloudstack.checks.questions import REACHABLE, Answers, LookUp, Query, api_of, place_of
from espalier.providers.cloudstack.kinds import AvailabilityZone, CloudStackDatacenterConfig, CloudStackMachineConfig


def configs(look_up: LookUp) -> Configs[CloudStackDatacenterConfig, CloudStackMachineConfig, Query, Answers]:
    """The configs to check against CloudStacks."""
    return Configs(
        "cloudstack",
        CloudStackDatacenterConfig,
        CloudStackMachineConfig,
        Api(look_up, REACHABLE, _credentials),
        accounts=_credentials_secrets,
        place=_availability_zones,
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


def _credentials_secret(zone: AvailabilityZone) -> Key:
    return Key(SYSTEM_NAMESPACE, references.credentials_of(zone))


def _credentials_secrets(config: CloudStackDatacenterConfig) -> Collection[Key]:
    return {_credentials_secret(zone) for zone in references.availability_zones(config.spec)}


def _availability_zones(config: CloudStackDatacenterConfig) -> Sequence[AvailabilityZone]:
    return references.availability_zones(config.spec)


def _request(zone: AvailabilityZone, query: Query) -> Request[Query]:
    return Request(query, _credentials_secret(zone), f"availability zone {zone.name}")


def _of_datacenter(config: CloudStackDatacenterConfig, new: Sequence[NewEndpoint]) -> CheckPlan[Query, Answers]:
    """Check each availability zone, and that no machine or load balancer has the address of a new endpoint."""
    zones = findings.zones_of(config.spec)
    endpoints = {endpoint: _address(endpoint.place) for endpoint in new}
    addresses = frozenset(address for address in endpoints.values() if address is not None)

    def request(zone: AvailabilityZone) -> Request[Query]:
        network = findings.network_of(zone)
        return _request(zone, Query(api_of(zone), place_of(zone), frozenset({network}), network, addresses))

    def evaluate(zone_answers: Sequence[Answers | None]) -> Evaluation:
        answered = [(zone, answers) for zone, answers in zip(zones, zone_answers, strict=True) if answers is not None]
        problems = [problem for zone, answers in answered for problem in findings.judge_zone(zone, answers)]
        holders = {}
        for endpoint, address in endpoints.items():
            users = (answers.holders.get(address, "") for _, answers in answered if address is not None)
            holders[endpoint.key] = endpoint.holder or next(filter(None, users), "")
        if len(answered) < len(zones):  # an address is only known to be free once all zones answered
            holders = {key: holder for key, holder in holders.items() if holder}
        status = msgspec.structs.replace(config.status, addresses=holders)
        return Evaluation(status, problems, any(holders.values()))

    return CheckPlan([request(fields.zone) for fields in zones], evaluate)


def _address(place: ip_addresses.Place) -> tuple[str, int] | None:
    """The address and the port of an endpoint; None for a name, which may resolve to any address."""
    return (place.host, int(place.port)) if ip_addresses.parsed(place.host) is not None else None


def _of_machines(
    config: CloudStackMachineConfig, uses: Sequence[Use[CloudStackDatacenterConfig]]
) -> CheckPlan[Query, Answers]:
    """Check a machine config in each availability zone of the datacenter of its Clusters."""
    zones = references.availability_zones(uses[0].datacenter.spec)
    versions = versions_of(config.metadata.name, uses)
    questions = frozenset(field.question for field in findings.of_machines(config.spec))

    def evaluate(zone_answers: Sequence[Answers | None]) -> Evaluation:
        answered = [(zone, answers) for zone, answers in zip(zones, zone_answers, strict=True) if answers is not None]
        problems = [
            problem for zone, answers in answered for problem in findings.judge_machines(config.spec, zone, answers)
        ]
        if len(answered) < len(zones):
            return Evaluation(config.status, problems)
        names = [zone.name for zone in zones]
        status = msgspec.structs.replace(config.status, kubernetes_versions=versions, availability_zones=names)
        return Evaluation(status, problems)

    return CheckPlan([_request(zone, Query(api_of(zone), place_of(zone), questions)) for zone in zones], evaluate)
