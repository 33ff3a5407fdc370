"""Controllers that check datacenter and machine configs against an infrastructure's API.

The result is the status of the object, which the Cluster controller reads (proposal full-cluster-lifecycle-api).
A server that is away changes nothing about what was found valid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple

import msgspec

from espalier.api import conditions
from espalier.api.core import SECRET, Secret
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.checked import Checked
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key, Resource
from espalier.clusters.design.secrets import credentials as permissions
from espalier.clusters.observe import references
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.clusters.observe.scope import read
from espalier.clusters.report.checks.conclusions import (
    INVALID,
    NOT_PERMITTED,
    A,
    CheckPlan,
    Conclusion,
    NoAnswer,
    Q,
    Request,
    conclude,
    with_result,
)
from espalier.clusters.report.checks.error_backoff import ErrorBackoff
from espalier.clusters.report.checks.questions import Credentials, LookUp, LookUpError
from espalier.kube.objects import Object
from espalier.runtime.component import Host
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.predicates import any_of, change_of
from espalier.runtime.controllers.reconciler import Event, Reconciled, Reconciler, Report
from espalier.runtime.controllers.writer import Writer

AGAIN = 600.0
"""Seconds between two checks of a valid config, ±10 % at random."""
SOON = 60.0
"""Seconds between two checks of an invalid config."""
WORKERS = 64
"""Concurrent checks: those of one server wait for each other, and must not delay others."""


@dataclass
class Check(Generic[Q, A]):
    """One check of one object."""

    object: Object
    status: Checked
    check_plan: CheckPlan[Q, A] | None = None
    """None: no Cluster uses the object, so there is nothing to ask."""
    problem: tuple[str, str] | None = None
    """A reason and a message, if there is nothing to ask."""


class Api(NamedTuple, Generic[Q, A]):
    """An infrastructure's API, as its controllers use it."""

    look_up: LookUp[Q, A]
    reachable: str
    """The condition for its reachability."""
    credentials: Callable[[Mapping[str, bytes], Q], Credentials]
    """The account in the data of a Secret for what is asked. Pure."""


class Checks(Generic[Q, A]):
    """The parts that a provider's controllers share: caches, the look-up, the clock."""

    def __init__(self, host: Host, api: Api[Q, A]) -> None:
        self.host = host
        self.api = api
        self.clusters = host.caches.of(eksa.Cluster.resource, sharded=True)
        self.secrets = host.caches.of(
            SECRET, SYSTEM_NAMESPACE, labels=references.OF_OTHERS, transform=references.without_keys_of_others
        )
        self._look_up = ErrorBackoff(api.look_up, host.manager.clock)

    def users(self, namespace: str, resource: Resource, name: str) -> list[eksa.Cluster]:
        """The Clusters that refer to an object."""
        clusters = []
        for cluster in readable(self.clusters.list(namespace)):
            named = {(reference.kind, reference.name) for _, reference in references.references(cluster.spec)}
            if (resource.kind, name) in named and cluster.metadata.deletion_timestamp is None:
                clusters.append(cluster)
        return clusters

    def holder(self, cluster: eksa.Cluster) -> str:
        """An older Cluster with the same endpoint; empty for none. It may be another tenant's, so it is not named."""
        born = age(cluster)
        for candidate in readable(self.clusters.list()):
            is_other = candidate.metadata.uid != cluster.metadata.uid and endpoint.is_shared(cluster, candidate)
            if is_other and (not is_new(candidate) or age(candidate) < born):
                return "another cluster"
        return ""

    def controller(
        self,
        name: str,
        resource: Resource,
        observe: Callable[[Object], Check[Q, A]],
        uses: Callable[[Object, Key], bool],
    ) -> Controller:
        """A controller that checks objects of a kind: when they, Clusters that reference them, or Secrets change, and
        periodically.

        `uses` says whether a Secret may contain the account of an object.
        """
        configs = self.host.caches.of(resource)
        reconciler = Reconciler(
            Reconciled(
                resource,
                configs.get,
                lambda object_: observe(object_) if object_.metadata.deletion_timestamp is None else None,
                lambda _check: (self._run,),
                lambda check, _outcome: report(check.object, check.status),
                unreadable=lambda object_, error: (Done(), Report(unreadable(object_, error))),
                finalizers=(),
            ),
            Writer(self.host.client, {resource: configs}),
            self.host.manager.recorder,
        )
        controller = Controller(name, reconciler.reconcile, workers=WORKERS, rng=self.host.manager.rng)
        controller.watch(configs, predicate=any_of(GENERATION, lost))
        controller.watch(self.clusters, lambda object_: _named_by(object_, resource), predicate=_CLUSTER)
        controller.watch(
            self.secrets,
            lambda secret: [config.key for config in configs.list() if uses(config, secret.key)],
            predicate=change_of(lambda object_: object_.metadata.resource_version),
        )
        return controller

    async def _run(self, check: Check[Q, A]) -> Outcome:
        """Ask the servers, evaluate the answers, and store the result for the status."""
        if check.problem is not None:
            check.status = with_result(check.status, check.object.metadata.generation, *check.problem)
            return Done()
        if check.check_plan is None:  # its next user waits for a check
            check.status = msgspec.structs.replace(check.status, spec_valid=None, failure_reason="", failure_message="")
            return Done()
        requests, namespace = check.check_plan.requests, check.object.key.namespace
        refused = [request for request in requests if self._account(request, namespace) is None]
        told = await asyncio.gather(*(self._ask(request, namespace, refused) for request in requests))
        conclusion = conclude(check.status, check.object.metadata.generation, check.check_plan, told)
        check.status = self._with_condition(conclusion)
        if conclusion.is_settled_by_secrets:
            return Done()
        after = (SOON if conclusion.is_soon else AGAIN) * self.host.manager.rng.uniform(0.9, 1.1)
        if conclusion.away is not None:
            return Wait(*conclusion.away, after=after)
        return Wait(Reason.LINKED_OBJECTS_NOT_CHECKED, "waiting for the next check", after=after)

    async def _ask(self, request: Request[Q], namespace: str, refused: Sequence[Request[Q]]) -> A | NoAnswer:
        """Return one server's answer or the reason for its absence: a failure does not affect other servers. That of
        `refused` requests names the servers of all that need the same Secret.
        """
        account = self._account(request, namespace)
        if account is None:
            of_account = [other for other in refused if other.account == request.account] or [request]
            servers = dict.fromkeys(other.query.server.permission for other in of_account)
            advice = permissions.advice(str(request.account), servers=servers, namespace=namespace)
            return NoAnswer(NOT_PERMITTED, f"waiting for {advice}")
        try:
            return await self._look_up(request.query, account)
        except LookUpError as error:
            return NoAnswer(error.reason, str(error))

    def _account(self, request: Request[Q], namespace: str) -> Credentials | None:
        """The account, if its Secret permits sending it to the server for objects of a namespace."""
        permission, secret = request.query.server.permission, self.secrets.get(request.account)
        annotations = secret.metadata.annotations if secret is not None else {}
        if secret is None or not permissions.permits(annotations, server=permission, namespace=namespace):
            return None
        return self.api.credentials(secret.decode(Secret).data, request.query)

    def _with_condition(self, conclusion: Conclusion) -> Checked:
        """The status with the reachability condition; unchanged if no server was asked."""
        reachable = self.api.reachable
        if conclusion.away is not None:
            condition = Condition(
                type=reachable, status="False", reason=conclusion.away.reason, message=conclusion.away.message
            )
        elif conclusion.is_answered:
            condition = Condition(type=reachable, status="True", reason=reachable)
        else:
            return conclusion.status
        changed = conditions.set(conclusion.status.conditions, condition, self.host.manager.clock.now())
        return msgspec.structs.replace(conclusion.status, conditions=changed)


def is_new(cluster: eksa.Cluster) -> bool:
    """True until the control plane of a Cluster has its address."""
    return not conditions.is_true(cluster.status.conditions, "ControlPlaneInitialized")


def readable(clusters: Iterable[Object]) -> Iterable[eksa.Cluster]:
    """The Clusters that can be decoded."""
    for cluster in clusters:
        try:
            yield read(cluster)
        except msgspec.ValidationError:
            continue  # its own condition says so


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    failure_message: str = ""
    observed_generation: int = 0


class _Reported(msgspec.Struct):
    status: _Status = _Status()


def report(object_: Object, status: Checked) -> Report:
    """The report on a config, with an event if what is wrong with it is new."""
    before = object_.decode(_Reported).status.failure_message
    events: list[Event] = []
    if status.failure_message and status.failure_message != before:
        events.append(Event("Warning", status.failure_reason, status.failure_message))
    return Report(status, events)


def unreadable(object_: Object, error: msgspec.ValidationError) -> Tree:
    """The status of a config that can't be decoded."""
    return {
        "specValid": False,
        "failureReason": INVALID,
        "failureMessage": f"the object is invalid: {error}; correct it",
        "observedGeneration": object_.metadata.generation,
    }


def age(cluster: eksa.Cluster) -> tuple[str, str]:
    """A sort key by creation: older Clusters come first."""
    return cluster.metadata.creation_timestamp or "", cluster.metadata.uid


def _named_by(object_: Object, resource: Resource) -> Sequence[Key]:
    try:
        spec = read(object_).spec
    except msgspec.ValidationError:
        return ()
    names = [reference.name for _, reference in references.references(spec) if reference.kind == resource.kind]
    return [Key(object_.key.namespace, name) for name in dict.fromkeys(names)]


def _what_matters(object_: Object) -> object:
    try:
        cluster = read(object_)
    except msgspec.ValidationError:
        return None
    spec = cluster.spec
    groups = [group.kubernetes_version for group in spec.worker_node_group_configurations]
    named = tuple((reference.kind, reference.name) for _, reference in references.references(spec))
    return (*named, spec.endpoint_host, is_new(cluster), spec.kubernetes_version, *groups)


def lost(old: Object | None, new: Object | None) -> bool:
    """True if a result was lost, as after a restore."""
    was, is_ = (
        (object_.decode(_Reported).status.observed_generation if object_ is not None else 0) for object_ in (old, new)
    )
    return was != 0 and is_ == 0


GENERATION = change_of(lambda object_: (object_.metadata.uid, object_.metadata.generation))
"""Passes changes of the spec."""
_CLUSTER = change_of(_what_matters)
