"""Controllers that check VSphereDatacenterConfigs and VSphereMachineConfigs against their vCenter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusters.observe.adoptions import Adoptions
from espalier.clusters.observe.cached.own_fields import of_share, with_our_fields
from espalier.clusters.report.checks.conclusions import CheckPlan, Evaluation
from espalier.clusters.report.checks.configs import Configs, NewEndpoint, OfMachines, Use, versions_of
from espalier.clusters.report.checks.controller import Api
from espalier.clusters.report.checks.questions import Credentials
from espalier.providers.vsphere import references
from espalier.providers.vsphere.checks import findings
from espalier.providers.vsphere.checks.questions import REACHABLE, Answers, LookUp, Query
from espalier.providers.vsphere.cluster_api import VSphereMachineTemplate
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig, VSphereMachineConfig
from espalier.providers.vsphere.server import server_of
from espalier.runtime.component import Host

CREDENTIALS = Key(SYSTEM_NAMESPACE, references.CREDENTIALS)


def configs(look_up: LookUp) -> Configs[VSphereDatacenterConfig, VSphereMachineConfig, Query, Answers]:
    """The configs to check against vCenters."""
    return Configs(
        "vsphere",
        VSphereDatacenterConfig,
        VSphereMachineConfig,
        Api(look_up, REACHABLE, _credentials),
        accounts=lambda _config: (CREDENTIALS,),
        place=lambda config: (server_of(config.spec), config.spec.datacenter),
        of_datacenter=_of_datacenter,
        of_machines=_of_machines,
    )


def _credentials(data: Mapping[str, bytes], _query: Query) -> Credentials:
    user, password = (data.get(key, b"").decode("utf-8", "replace") for key in (references.USER, references.PASSWORD))
    return Credentials(user, password)


def _of_datacenter(config: VSphereDatacenterConfig, new: Sequence[NewEndpoint]) -> CheckPlan[Query, Answers]:
    named = findings.of_datacenter(config.spec)

    def evaluate(answers: Answers) -> Evaluation:
        machines = {address: f"virtual machine {name}" for address, name in answers.holders.items()}
        addresses = {endpoint.key: endpoint.holder or machines.get(endpoint.place.host, "") for endpoint in new}
        status = msgspec.structs.replace(config.status, addresses=addresses)
        return Evaluation(status, list(findings.evaluate(named, answers)), any(addresses.values()))

    questions = frozenset(question for _, question in named)
    query = Query(server_of(config.spec), questions, frozenset(endpoint.place.host for endpoint in new))
    return CheckPlan.of_query(query, CREDENTIALS, evaluate)


def _of_machines(host: Host) -> OfMachines[VSphereMachineConfig, VSphereDatacenterConfig, Query, Answers]:
    """Check a machine config in the datacenter of its Clusters."""
    ours = of_share(with_our_fields, host.manager.options)
    templates = host.caches.of(VSphereMachineTemplate.resource, SYSTEM_NAMESPACE, optional=True, transform=ours)

    adoptions = Adoptions(host.caches)

    def in_use(uses: Sequence[Use[VSphereDatacenterConfig]]) -> frozenset[str]:
        """The paths in use by machines of Clusters, in case the status was lost."""
        clusters = {Key(use.cluster.metadata.namespace, use.cluster.metadata.name) for use in uses}
        paths: set[str] = set()
        for template in templates.list():
            if adoptions.owner_of(VSphereMachineTemplate.resource, template) in clusters:
                spec = template.decode(VSphereMachineTemplate).spec.template.spec
                paths |= {spec.datastore, spec.folder, spec.resource_pool, spec.template}
        return frozenset(filter(None, paths))

    def check_plan(
        config: VSphereMachineConfig, uses: Sequence[Use[VSphereDatacenterConfig]]
    ) -> CheckPlan[Query, Answers]:
        datacenter = uses[0].datacenter.spec
        named = findings.of_machines(config.spec, datacenter.datacenter)
        versions = versions_of(config.metadata.name, uses)
        pinned = in_use(uses)

        def evaluate(answers: Answers) -> Evaluation:
            resolved, problems = findings.conclude(
                config, datacenter.datacenter, named, answers, frozenset(versions), pinned
            )
            status = msgspec.structs.replace(config.status, resolved=resolved, kubernetes_versions=versions)
            return Evaluation(status, problems)

        query = Query(
            server_of(datacenter),
            frozenset(question for _, question in named),
            tags=frozenset(config.spec.tags),
            policies=frozenset(filter(None, (config.spec.storage_policy_name,))),
        )
        return CheckPlan.of_query(query, CREDENTIALS, evaluate)

    return check_plan
