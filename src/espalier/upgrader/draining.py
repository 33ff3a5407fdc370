"""Drain and uncordon the node through the API, with the pod's own ServiceAccount and no access to the host.

Evicted are pods that a controller recreates elsewhere. Pods of DaemonSets, mirror pods, finished pods, the upgrader's
own and pods without a controller stay: during an in-place upgrade they keep running.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .api import MERGE_PATCH, Api, Response, Unreachable
from .host import Clock, StepFailed

CORDONED_ANNOTATION = "anywhere.eks.amazonaws.com/cordoned-by-upgrade"
"""Annotation of a node that `drain` cordoned: `CORDONED_BY_UPGRADE` of the controllers, which share no module with
this program. An operator's cordon lacks it, and stays."""
DRAIN_BLOCKED_ANNOTATION = "anywhere.eks.amazonaws.com/drain-blocked"
"""Annotation of a node whose drain is waiting, with the remaining pods: `DRAIN_BLOCKED` of the controllers."""
MAX_ANNOTATION = 1000
"""The longest value of that annotation, in characters."""
MIRROR = "kubernetes.io/config.mirror"
UPGRADER = "eks-d-upgrader"
ENDED = ("Succeeded", "Failed")
NOT_FOUND, TOO_MANY_REQUESTS = 404, 429
POLL_INTERVAL = 2
"""Seconds between two checks of the remaining pods."""
REPORT_AFTER = 10
"""Seconds after which a terminating pod is reported. A pod whose eviction is refused is reported at once."""
TERMINATING, EVICTED = "it is still terminating", "it was just evicted"


@dataclass(frozen=True)
class Cordon:
    """The node to cordon or uncordon, the API server, and a clock."""

    node: str
    api: Api
    clock: Clock

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Response:
        """Send one request. Raises `StepFailed` if the API server does not respond."""
        try:
            return self.api.request(method, path, body, content_type=content_type)
        except Unreachable as error:
            raise StepFailed(f"{error}; the node was left as it is; delete the pod to retry") from error

    def read(self) -> Any:
        """The node. Raises `StepFailed`."""
        answer = self.request("GET", self._path)
        if answer.status != 200:
            raise StepFailed(f"can't read node {self.node} ({answer.reason})")
        return answer.tree

    def write(self, unschedulable: bool | None, annotation: str | None) -> None:
        """Cordon or uncordon, and set or remove our annotation in the same write. Raises `StepFailed`."""
        annotations = {CORDONED_ANNOTATION: annotation, DRAIN_BLOCKED_ANNOTATION: None}
        self._patch({"metadata": {"annotations": annotations}, "spec": {"unschedulable": unschedulable}})

    def annotate(self, blocked: str) -> None:
        """Annotate the node with what its drain waits for; empty removes the annotation. Raises `StepFailed`."""
        self._patch({"metadata": {"annotations": {DRAIN_BLOCKED_ANNOTATION: blocked or None}}})

    def _patch(self, body: Any) -> None:
        answer = self.request("PATCH", self._path, body, content_type=MERGE_PATCH)
        if answer.status != 200:
            raise StepFailed(f"can't patch node {self.node} ({answer.reason})")

    @property
    def _path(self) -> str:
        return f"/api/v1/nodes/{quote(self.node)}"


def drain(cordon: Cordon, version: str, *, timeout: float) -> str:
    """Cordon the node, evict its pods within their PodDisruptionBudgets, and wait until they are gone.

    The node's annotation shows what it waits for; it retries evictions until they succeed.

    Raises `StepFailed` after `timeout` seconds (0 for no limit), naming the remaining pods and what blocks each. The
    node then stays cordoned, so that no new pods are scheduled to it during the investigation.
    """
    if not cordon.read().get("spec", {}).get("unschedulable"):
        cordon.write(unschedulable=True, annotation=version)
    started = cordon.clock.now()
    reported = ""
    evicted: set[str] = set()
    while True:
        blocked = {}
        for pod in _pods_to_evict(cordon):
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if pod["metadata"].get("deletionTimestamp"):
                blocked[name] = TERMINATING
            elif reason := _evict(cordon, pod):
                blocked[name] = reason
            else:
                blocked[name] = EVICTED
                evicted.add(pod["metadata"].get("uid", name))
        passed = cordon.clock.now() - started
        message = _remaining_pods(blocked, passed)
        if message != reported:
            cordon.annotate(message)
            print(f"waiting for {message}" if message else "nothing blocks the drain any more", flush=True)
            reported = message
        if not blocked:
            return f"the node is drained; {len(evicted)} pods were evicted"
        if timeout and passed >= timeout:
            raise StepFailed(
                f"the node was not drained within {timeout:.0f} s, {len(blocked)} pods are left ({_joined(blocked)}); "
                "it stays cordoned; allow their eviction, then delete the pod to retry"
            )
        cordon.clock.wait(POLL_INTERVAL)


def _remaining_pods(blocked: Mapping[str, str], passed: float) -> str:
    """The message about the remaining pods; those that are just terminating are left out at first."""
    refused = {name: why for name, why in blocked.items() if why not in (TERMINATING, EVICTED)}
    return _joined(blocked if passed >= REPORT_AFTER else refused)[:MAX_ANNOTATION]


def _joined(blocked: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in sorted(blocked.items()))


def uncordon(cordon: Cordon) -> str:
    """Uncordon the node if `drain` cordoned it; returns a message on the result. Raises `StepFailed`."""
    node = cordon.read()
    if CORDONED_ANNOTATION not in (node["metadata"].get("annotations") or {}):
        state = (
            "cordoned by somebody else and stays cordoned"
            if node.get("spec", {}).get("unschedulable")
            else "not cordoned"
        )
        return f"the node is {state}"
    cordon.write(unschedulable=None, annotation=None)
    return "the node is uncordoned"


def _pods_to_evict(cordon: Cordon) -> list[Any]:
    """The pods of the node that remain to be evicted or terminated."""
    answer = cordon.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{quote(cordon.node)}")
    if answer.status != 200:
        raise StepFailed(f"can't list the pods of node {cordon.node} ({answer.reason})")
    return [pod for pod in answer.tree.get("items") or () if _is_to_evict(pod)]


def _is_to_evict(pod: Any) -> bool:
    """True for unfinished pods of a controller other than a DaemonSet, except mirror pods and the upgrader's own."""
    metadata = pod["metadata"]
    if UPGRADER in (metadata.get("labels") or {}) or MIRROR in (metadata.get("annotations") or {}):
        return False
    if pod.get("status", {}).get("phase") in ENDED:
        return False
    owner = next((owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")), None)
    return owner is not None and owner.get("kind") != "DaemonSet"


def _evict(cordon: Cordon, pod: Any) -> str:
    """Request the eviction of a pod; returns the reason of a refusal, empty if it was accepted or the pod is gone."""
    metadata = pod["metadata"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
    }
    path = f"/api/v1/namespaces/{quote(metadata['namespace'])}/pods/{quote(metadata['name'])}/eviction"
    answer = cordon.request("POST", path, body)
    if answer.status < 300 or answer.status == NOT_FOUND:
        return ""
    if answer.status == TOO_MANY_REQUESTS:
        causes = (answer.tree.get("details") or {}).get("causes") or []
        return "; ".join(cause.get("message", "") for cause in causes) or answer.reason
    return f"its eviction is refused ({answer.reason})"
