"""Eviction: deletes a pod if its PodDisruptionBudget allows it, as kube-apiserver does."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import msgspec

from espalier.api import conditions as condition_list
from espalier.api import core as builtin
from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import Tree
from espalier.apiserver.core.core import Core, RequestStep, RequestSteps, put
from espalier.apiserver.core.deleting import Deleter
from espalier.apiserver.requests import bodies
from espalier.apiserver.requests.bodies import DeleteOptions
from espalier.apiserver.requests.requests import RequestInfo
from espalier.apiserver.wire import failures
from espalier.kube.errors import ApiError, StatusCause, StatusDetails, TooManyRequests
from espalier.kube.objects import Object

RETRY_AFTER = 10
"""Retry-After seconds while a budget has no current status."""

ATTEMPTS = 10
"""Retries when a budget changes concurrently."""

MAX_DISRUPTED = 2000
"""The maximum number of evictions that the budget's controller has not confirmed yet."""

_PHASES_WITHOUT_BUDGET = frozenset({"Pending", "Succeeded", "Failed"})
"""Phases of pods whose deletion disrupts nothing."""

_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


class Evictor:
    """Carries out evictions."""

    def __init__(self, core: Core, deleter: Deleter) -> None:
        self._core = core
        self._deleter = deleter

    def evict(self, info: RequestInfo) -> RequestSteps:
        """POST of an Eviction. Raises `TooManyRequests` when the pod's budget allows no disruption now."""
        options = bodies.delete_options(info)
        pod = self._core.store.table(info.kind.table).objects.get(info.key)
        if pod is None:
            raise failures.not_found(info.kind.resource, info.name)
        yield from self._check_budget(info, pod, options)
        return (yield from self._deleter.delete_with(info, options))

    def _check_budget(
        self, info: RequestInfo, pod: Object, options: DeleteOptions
    ) -> Generator[RequestStep, Any, None]:
        tree = pod.tree
        status = tree.get("status") or {}
        if status.get("phase") in _PHASES_WITHOUT_BUDGET or tree["metadata"].get("deletionTimestamp"):
            return
        for _ in range(ATTEMPTS):
            budgets = list(self._budgets_of(tree))
            if len(budgets) > 1:
                raise failures.internal_error(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                )
            if not budgets:
                return
            # The deletion has the checked pod's uid as precondition: a new pod of the same name was not checked.
            options.preconditions = {"uid": pod.head.metadata.uid, **(options.preconditions or {})}
            if options.preconditions["uid"] != pod.head.metadata.uid or _ignores_budget(budgets[0].tree, status):
                return
            if (yield from self._count_disruption(budgets[0], info.name, dry_run=bool(options.dry_run))):
                return
        raise _being_processed(budgets[0].name)

    def _budgets_of(self, pod: Tree) -> Iterator[Object]:
        table = self._core.store.table(builtin.POD_DISRUPTION_BUDGET.group_resource)
        labels = pod["metadata"].get("labels") or {}
        for key in table.within(pod["metadata"]["namespace"]):
            budget = table.objects[key]
            selector = budget.tree["spec"].get("selector")
            # None selects nothing, an empty one all pods of the namespace.
            if selector is not None and msgspec.convert(selector, type=LabelSelector).selects(labels):
                yield budget

    def _count_disruption(self, old: Object, pod: str, *, dry_run: bool) -> Generator[RequestStep, Any, bool]:
        """Count the disruption; returns False if the budget has changed. Its controller confirms it later."""
        budget = old.tree
        name, status = budget["metadata"]["name"], budget.get("status") or {}
        resource = builtin.POD_DISRUPTION_BUDGET
        allowed, disrupted = status.get("disruptionsAllowed", 0), dict(status.get("disruptedPods") or {})
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            raise _being_processed(name)
        if allowed < 0:
            raise failures.refused(resource, name, "pdb disruptions allowed is negative")
        if len(disrupted) > MAX_DISRUPTED:
            sentence = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
            raise failures.refused(resource, name, sentence)
        if allowed == 0:
            needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
            raise _refusal(f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")
        if dry_run:
            return True
        disrupted[pod] = condition_list.timestamp(self._core.now())
        budget["status"] = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
        kind = self._core.registry.lookup(resource.group, resource.version, resource.plural)
        if kind is None:
            return True
        stored = yield from put(kind, old.key, old, budget)
        return stored is not None


def _ignores_budget(budget: Tree, pod_status: Tree) -> bool:
    """True if an unready pod may be evicted: it does not count as healthy, or its budget's policy allows it."""
    if condition_list.is_true_in(pod_status, "Ready"):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    wanted: int = status.get("desiredHealthy", 0)
    healthy: int = status.get("currentHealthy", 0)
    return wanted > 0 and healthy >= wanted


def _being_processed(name: str) -> ApiError:
    return _refusal(f"The disruption budget {name} is still being processed by the server.", RETRY_AFTER)


def _refusal(sentence: str, seconds: int = 0) -> ApiError:
    cause = StatusCause(reason="DisruptionBudget", message=sentence)
    return TooManyRequests.of(_REFUSED, StatusDetails(causes=[cause], retry_after_seconds=seconds))
