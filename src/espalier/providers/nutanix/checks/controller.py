"""Controllers that check NutanixDatacenterConfigs and NutanixMachineConfigs against their Prism Central."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusters.design.render_input import group_name
from espalier.clusters.report.checks.conclusions import CheckPlan, Evaluation
from espalier.clusters.report.checks.configs import Configs, NewEndpoint, Use, versions_of
from espalier.clusters.report.checks.controller import Api
from espalier.clusters.report.checks.questions import Credentials
from espalier.providers.nutanix import references
from espalier.providers.nutanix.checks import findings
from espalier.providers.nutanix.checks.questions import REACHABLE, Answers, LookUp, ObjectType, Query, server_of
from espalier.providers.nutanix.kinds import (
    Identifier,
    NutanixDatacenterConfig,
    NutanixDatacenterConfigSpec,
    NutanixMachineConfig,
)


def configs(look_up: LookUp) -> Configs[NutanixDatacenterConfig, NutanixMachineConfig, Query, Answers]:
    """The configs to check against Prism Centrals."""
    return Configs(
        "nutanix",
        NutanixDatacenterConfig,
        NutanixMachineConfig,
        Api(look_up, REACHABLE, _credentials),
        accounts=lambda config: (_credentials_secret(config.spec),),
        place=lambda config: (server_of(config.spec), _credentials_secret(config.spec)),
        of_datacenter=_of_datacenter,
        of_machines=lambda _host: _of_machines,
    )


def _credentials(data: Mapping[str, bytes], _query: Query) -> Credentials:
    """The account that creates machines. Without an account, nothing is sent, and the login counts as refused."""
    account = references.read_account(data.get(references.OF_MACHINES, b""))
    return Credentials(account.username, account.password) if account is not None else Credentials("", "")


def _credentials_secret(spec: NutanixDatacenterConfigSpec) -> Key:
    return Key(SYSTEM_NAMESPACE, references.credentials_of(spec))


def _of_datacenter(config: NutanixDatacenterConfig, new: Sequence[NewEndpoint]) -> CheckPlan[Query, Answers]:
    spec = config.spec
    addresses = {endpoint.key: endpoint.holder for endpoint in new}

    def evaluate(answers: Answers) -> Evaluation:
        status = msgspec.structs.replace(config.status, addresses=addresses)
        return Evaluation(status, list(findings.judge_datacenter(spec, answers)), any(addresses.values()))

    return CheckPlan.of_query(
        Query(server_of(spec), findings.questions(findings.of_datacenter(spec))), _credentials_secret(spec), evaluate
    )


def _of_machines(
    config: NutanixMachineConfig, uses: Sequence[Use[NutanixDatacenterConfig]]
) -> CheckPlan[Query, Answers]:
    """Check a machine config against the Prism Central of its Clusters."""
    datacenter, spec, name = uses[0].datacenter.spec, config.spec, config.metadata.name
    versions = versions_of(name, uses)
    elements = {
        str(element): element
        for use in uses
        for element in _clusters_of_workers(use.cluster, use.datacenter.spec, name, spec.cluster)
    }

    def evaluate(answers: Answers) -> Evaluation:
        status = msgspec.structs.replace(config.status, kubernetes_versions=versions)
        return Evaluation(status, list(findings.judge_machines(spec, [*elements.values()], answers, versions)))

    place, others = findings.of_machines(spec)
    of_elements = (findings.Named("", ObjectType.CLUSTER, element) for element in elements.values())
    questions = findings.questions([place], [*others, *of_elements])
    query = Query(server_of(datacenter), questions, findings.categories(spec), bool(spec.gpus))
    return CheckPlan.of_query(query, _credentials_secret(datacenter), evaluate)


def _clusters_of_workers(
    cluster: eksa.Cluster, datacenter: NutanixDatacenterConfigSpec, config: str, own: Identifier
) -> Iterator[Identifier]:
    """The Prism Element clusters for workers with a machine config."""
    for group in cluster.spec.worker_node_group_configurations:
        if group.machine_group_ref is not None and group.machine_group_ref.name == config:
            name = group_name(group)
            domains = [domain.cluster for domain in datacenter.failure_domains if name in domain.worker_machine_groups]
            yield from domains or [own]
