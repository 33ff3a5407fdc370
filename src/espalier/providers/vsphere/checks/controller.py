"""Controllers that check VSphereDatacenterConfigs and VSphereMachineConfigs against their vCenter.

The result is the status of the object, which the Cluster controller reads (proposal full-cluster-lifecycle-api,
"VSphereDatacenterConfig Validation"). A vCenter that is away changes nothing about what was found valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from espalier.api import conditions
from espalier.api.core import SECRET, Secret
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key
from espalier.clusters import credentials as permissions
from espalier.clusters import references
from espalier.kube.objects import Object
from espalier.providers.vsphere import linked
from espalier.providers.vsphere.checks import findings, problems
from espalier.providers.vsphere.checks.caution import Caution
from espalier.providers.vsphere.checks.questions import (
    REACHABLE,
    Answers,
    Asked,
    Credentials,
    LookUp,
    Server,
    VCenterError,
    server_of,
)
from espalier.providers.vsphere.kinds import (
    VSphereDatacenterConfig,
    VSphereDatacenterConfigSpec,
    VSphereDatacenterConfigStatus,
    VSphereMachineConfig,
    VSphereMachineConfigStatus,
)
from espalier.runtime.component import Host
from espalier.runtime.controller import Controller
from espalier.runtime.outcome import Done, Outcome, Wait
from espalier.runtime.predicates import change_of
from espalier.runtime.reconciler import Event, Reconciled, Reconciler, Report
from espalier.runtime.writer import Writer

CREDENTIALS = Key(SYSTEM_NAMESPACE, linked.CREDENTIALS)

AGAIN = 600.0
"""Seconds between two checks of what is valid; 10 % more or less at random."""
SOON = 60.0
"""Seconds between two checks of what is not."""
WORKERS = 64
"""Checks at the same moment: those of a vCenter wait for each other, and must not hold up others."""

INVALID = "SpecInvalid"
NOT_PERMITTED = "CredentialsNotPermitted"
NO_CLUSTER = "NoCluster"
SEVERAL_DATACENTERS = "SeveralDatacenters"
CHECKED = "Checked"

S = TypeVar("S", VSphereDatacenterConfigStatus, VSphereMachineConfigStatus)


@dataclass
class Context:
    """One check of one object."""

    object: Object
    status: VSphereDatacenterConfigStatus | VSphereMachineConfigStatus
    datacenter: VSphereDatacenterConfigSpec | None
    """None where no one datacenter is known; `problem` says why."""
    problem: tuple[str, str] | None
    asked: Asked | None
    judge: Callable[[Answers], tuple[VSphereDatacenterConfigStatus | VSphereMachineConfigStatus, list[str]]]
    """The status after these answers, and what was found wrong."""


class Checks:
    """What both controllers share: caches, the way to the vCenter, the clock."""

    def __init__(self, host: Host, look_up: LookUp) -> None:
        self.host = host
        self.clusters = host.caches.of(eksa.Cluster.resource, sharded=True)
        self.datacenters = host.caches.of(VSphereDatacenterConfig.resource)
        self.machines = host.caches.of(VSphereMachineConfig.resource)
        self.secrets = host.caches.of(
            SECRET, SYSTEM_NAMESPACE, labels=references.OF_OTHERS, transform=references.without_keys_of_others
        )
        self.look_up = Caution(look_up, host.manager.clock)
        caches = {VSphereDatacenterConfig.resource: self.datacenters, VSphereMachineConfig.resource: self.machines}
        self.writer = Writer(host.client, caches)

    def users(self, namespace: str, kind: type[KubeObject], name: str) -> list[eksa.Cluster]:
        """The Clusters that refer to an object."""
        found = []
        for one in self.clusters.list(namespace):
            try:
                cluster = one.decode(eksa.Cluster)
            except msgspec.ValidationError:
                continue  # its own condition says so
            named = {(reference.kind, reference.name) for _, reference in references.references(cluster.spec)}
            if (kind.resource.kind, name) in named and cluster.metadata.deletion_timestamp is None:
                found.append(cluster)
        return found

    def holder(self, cluster: eksa.Cluster) -> str:
        """Another Cluster that names the same endpoint, and was there before; empty for none. It may be a tenant's, so
        it has no name here.
        """
        endpoint, born = _endpoint(cluster), _age(cluster)
        for found in self.clusters.list():
            try:
                one = found.decode(eksa.Cluster)
            except msgspec.ValidationError:
                continue
            is_other = one.metadata.uid != cluster.metadata.uid
            if is_other and _endpoint(one) == endpoint and (not _is_new(one) or _age(one) < born):
                return "another cluster"
        return ""

    def datacenter(self, cluster: eksa.Cluster) -> tuple[str, VSphereDatacenterConfigSpec] | None:
        """Name and spec of the datacenter of a Cluster."""
        reference = cluster.spec.datacenter_ref
        if reference is None or reference.kind != VSphereDatacenterConfig.resource.kind:
            return None
        found = self.datacenters.get(Key(cluster.metadata.namespace, reference.name))
        try:
            return (reference.name, found.decode(VSphereDatacenterConfig).spec) if found is not None else None
        except msgspec.ValidationError:
            return None

    def credentials(self, server: Server, namespace: str) -> Credentials | None:
        """The account, if its Secret permits that it is sent there for objects of a namespace."""
        secret = self.secrets.get(CREDENTIALS)
        annotations = secret.metadata.annotations if secret is not None else {}
        if secret is None or not permissions.permits(annotations, server=server.permission, namespace=namespace):
            return None
        data = secret.decode(Secret).data
        return Credentials(*(data.get(key, b"").decode("utf-8", "replace") for key in (linked.USER, linked.PASSWORD)))


def datacenters(look_up: LookUp) -> Callable[[Host], Controller]:
    """The controller of VSphereDatacenterConfigs."""

    def made(host: Host) -> Controller:
        checks = Checks(host, look_up)
        controller = _controller("vsphere-datacenter", checks, VSphereDatacenterConfig, _of_datacenter)
        controller.watch(checks.datacenters, predicate=_generation)
        controller.watch(checks.clusters, _datacenter_of, predicate=_cluster)
        return controller

    return made


def machines(look_up: LookUp) -> Callable[[Host], Controller]:
    """The controller of VSphereMachineConfigs."""

    def made(host: Host) -> Controller:
        checks = Checks(host, look_up)
        controller = _controller("vsphere-machines", checks, VSphereMachineConfig, _of_machines)
        controller.watch(checks.machines, predicate=_generation)
        controller.watch(checks.clusters, _machines_of, predicate=_cluster)
        controller.watch(
            checks.datacenters,
            lambda found: [one.key for one in checks.machines.list(found.key.namespace)],
            predicate=_generation,
        )
        return controller

    return made


def _controller(
    name: str,
    checks: Checks,
    kind: type[KubeObject],
    context: Callable[[Checks, Object], Context],
) -> Controller:
    configs = checks.host.caches.of(kind.resource)

    def observe(found: Object) -> Context | None:
        return context(checks, found) if found.metadata.deletion_timestamp is None else None

    async def check(ctx: Context) -> Outcome:
        return await _check(checks, ctx)

    reconciler = Reconciler(
        Reconciled(
            kind.resource,
            configs.get,
            observe,
            lambda _ctx: (check,),
            lambda ctx, _outcome: _report(ctx),
            unreadable=lambda found, error: (Done(), Report(_unreadable(found, error))),
        ),
        checks.writer,
        checks.host.manager.recorder,
    )
    controller = Controller(name, reconciler.reconcile, workers=WORKERS, rng=checks.host.manager.rng)
    controller.watch(
        checks.secrets,
        lambda found: [one.key for one in configs.list()] if found.key == CREDENTIALS else [],
        predicate=change_of(lambda found: found.metadata.resource_version),
    )
    return controller


async def _check(checks: Checks, ctx: Context) -> Outcome:
    """Ask, judge, and keep the result for the status."""
    now = checks.host.manager.clock.now()
    generation = ctx.object.metadata.generation
    spread = checks.host.manager.rng.uniform(0.9, 1.1)

    def result(reason: str, message: str, reachable: Condition | None = None) -> None:
        status = ctx.status
        said = [*status.conditions] if reachable is None else conditions.set(status.conditions, reachable, now)
        ctx.status = msgspec.structs.replace(
            status,
            spec_valid=not reason,
            failure_reason=reason,
            failure_message=message,
            observed_generation=generation,
            conditions=said,
        )

    if ctx.problem is not None:
        result(*ctx.problem)
        return Done()
    if ctx.asked is None:  # nobody uses it yet
        return Done()
    server = ctx.asked.server
    namespace = ctx.object.key.namespace
    account = checks.credentials(server, namespace)
    if account is None:
        advice = permissions.advice(str(CREDENTIALS), server=server.permission, namespace=namespace)
        result(NOT_PERMITTED, f"waiting for {advice}")
        return Done()
    try:
        answers = await checks.look_up(ctx.asked, account)
    except VCenterError as error:
        away = Condition(type=REACHABLE, status="False", reason=error.reason, message=str(error))
        if ctx.status.spec_valid and ctx.status.observed_generation == generation:
            said = conditions.set(ctx.status.conditions, away, now)
            ctx.status = msgspec.structs.replace(ctx.status, conditions=said)
        else:
            result(error.reason, str(error), away)
        return Wait(error.reason, str(error), after=SOON * spread)
    ctx.status, wrong = ctx.judge(answers)
    here = Condition(type=REACHABLE, status="True", reason=REACHABLE)
    result(INVALID if wrong else "", "; ".join(wrong), here)
    is_waited_for = wrong or (
        isinstance(ctx.status, VSphereDatacenterConfigStatus) and any(ctx.status.addresses.values())
    )
    return Wait(CHECKED, "the next check is due", after=(SOON if is_waited_for else AGAIN) * spread)


def _report(ctx: Context) -> Report:
    before = ctx.object.decode(_Reported).status
    events: list[Event] = []
    if ctx.status.failure_message and ctx.status.failure_message != (before.failure_message if before else ""):
        events.append(Event("Warning", ctx.status.failure_reason, ctx.status.failure_message))
    return Report(ctx.status, events)


def _unreadable(found: Object, error: msgspec.ValidationError) -> Tree:
    return {
        "specValid": False,
        "failureReason": INVALID,
        "failureMessage": f"the object can't be read: {error}; correct it",
        "observedGeneration": found.metadata.generation,
    }


class _Failure(msgspec.Struct, rename="camel"):
    failure_message: str = ""


class _Reported(msgspec.Struct):
    status: _Failure | None = None


def _of_datacenter(checks: Checks, found: Object) -> Context:
    config = found.decode(VSphereDatacenterConfig)
    spec = config.spec
    named = findings.of_datacenter(spec)
    users = checks.users(found.key.namespace, VSphereDatacenterConfig, found.name)
    new = [one for one in users if _is_new(one) and _endpoint(one)]
    holders = {problems.claim(one): checks.holder(one) for one in new}

    def judge(answers: Answers) -> tuple[VSphereDatacenterConfigStatus, list[str]]:
        machines = {one: f"virtual machine {name}" for one, name in answers.holders.items()}
        addresses = {
            problems.claim(one): holders[problems.claim(one)] or machines.get(_endpoint(one), "") for one in new
        }
        return msgspec.structs.replace(config.status, addresses=addresses), list(findings.judge(named, answers))

    asked = Asked(server_of(spec), frozenset(question for _, question in named), frozenset(map(_endpoint, new)))
    return Context(found, config.status, spec, None, asked, judge)


def _of_machines(checks: Checks, found: Object) -> Context:
    config = found.decode(VSphereMachineConfig)
    users = checks.users(found.key.namespace, VSphereMachineConfig, found.name)
    of_users = dict(filter(None, map(checks.datacenter, users)))
    names = {spec.datacenter for spec in of_users.values()}, {server_of(spec) for spec in of_users.values()}
    if any(len(one) > 1 for one in names):
        listed = ", ".join(sorted(of_users))
        message = f"Clusters of several datacenters name it ({listed}); make a VSphereMachineConfig for each"
        return Context(found, config.status, None, (SEVERAL_DATACENTERS, message), None, lambda _: (config.status, []))
    if not of_users:
        return Context(found, config.status, None, None, None, lambda _: (config.status, []))
    datacenter = next(iter(of_users.values()))
    named = findings.of_machines(config.spec, datacenter.datacenter)
    versions = frozenset(one for user in users for one in linked.versions(user.spec, found.name) if one)

    def judge(answers: Answers) -> tuple[VSphereMachineConfigStatus, list[str]]:
        before = config.status.resolved
        kept = (before.datastore, before.folder, before.resource_pool, before.template)
        paths = findings.resolved(config.spec, datacenter.datacenter, answers, before)
        chosen, missing = findings.choose_templates(config.spec, datacenter.datacenter, answers, versions, before)
        paths = msgspec.structs.replace(paths, templates=chosen)
        wrong = [
            *missing,
            *findings.judge(named, answers, filter(None, kept)),
            *findings.judge_template(config.spec, paths.template, answers, versions),
        ]
        return msgspec.structs.replace(config.status, resolved=paths, kubernetes_versions=sorted(versions)), wrong

    asked = Asked(server_of(datacenter), frozenset(question for _, question in named))
    return Context(found, config.status, datacenter, None, asked, judge)


def _age(cluster: eksa.Cluster) -> tuple[str, str]:
    return cluster.metadata.creation_timestamp or "", cluster.metadata.uid


def _endpoint(cluster: eksa.Cluster) -> str:
    control_plane = cluster.spec.control_plane_configuration
    return control_plane.endpoint.host if control_plane is not None and control_plane.endpoint is not None else ""


def _is_new(cluster: eksa.Cluster) -> bool:
    """True until its control plane has the address itself."""
    return not conditions.is_true(cluster.status.conditions, "ControlPlaneInitialized")


def _datacenter_of(found: Object) -> Iterable[Key]:
    return _named_by(found, VSphereDatacenterConfig)


def _machines_of(found: Object) -> Iterable[Key]:
    return _named_by(found, VSphereMachineConfig)


def _named_by(found: Object, kind: type[KubeObject]) -> Sequence[Key]:
    try:
        spec = found.decode(eksa.Cluster).spec
    except msgspec.ValidationError:
        return ()
    names = [one.name for _, one in references.references(spec) if one.kind == kind.resource.kind]
    return [Key(found.key.namespace, name) for name in dict.fromkeys(names)]


def _what_matters(found: Object) -> object:
    try:
        cluster = found.decode(eksa.Cluster)
    except msgspec.ValidationError:
        return None
    named = tuple((one.kind, one.name) for _, one in references.references(cluster.spec))
    return (*named, _endpoint(cluster), _is_new(cluster), cluster.spec.kubernetes_version)


_generation = change_of(lambda found: (found.metadata.uid, found.metadata.generation))
_cluster = change_of(_what_matters)
