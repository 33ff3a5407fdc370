"""Drain and uncordon the node through the API, with the pod's own ServiceAccount and no access to the host.

Evicted are pods that a controller recreates elsewhere. Pods of DaemonSets, mirror pods, finished pods, the upgrader's
own and pods without a controller stay: during an in-place upgrade they keep running.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .api import MERGE, Answer, Api, Unreachable
from .host import Clock, StepFailed

CORDONED_ANNOTATION = "anywhere.eks.amazonaws.com/cordoned-by-upgrade"
"""Annotation of a node that `drain` cordoned: `CORDONED_BY_UPGRADE` of the controllers, which share no module with
this program. An operator's cordon lacks it, and stays."""
HELD = "anywhere.eks.amazonaws.com/drain-blocked"
"""Annotation of a node whose drain is waiting, with the remaining pods: `DRAIN_BLOCKED` of the controllers."""
LONGEST_NOTE = 1000
MIRROR = "kubernetes.io/config.mirror"
UPGRADER = "eks-d-upgrader"
ENDED = ("Succeeded", "Failed")
GONE, BLOCKED = 404, 429
EVERY = 2
"""Seconds between two checks of the remaining pods."""
PATIENCE = 10
"""Seconds after which a terminating pod is reported. A pod whose eviction is refused is reported at once."""
ENDING, EVICTED = "it is still terminating", "it was just evicted"


@dataclass(frozen=True)
class Cordon:
    """The API server, the node and the clock of both steps."""

    node: str
    api: Api
    clock: Clock

    def ask(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Answer:
        """One request. Raises `StepFailed` if there is no answer."""
        try:
            return self.api.ask(method, path, body, content_type=content_type)
        except Unreachable as error:
            raise StepFailed(f"{error}; the node was left as it is; delete the pod to retry") from error

    def read(self) -> Any:
        """The node. Raises `StepFailed`."""
        answer = self.ask("GET", self._path)
        if answer.status != 200:
            raise StepFailed(f"can't read node {self.node} ({answer.reason})")
        return answer.tree

    def write(self, unschedulable: bool | None, annotation: str | None) -> None:
        """Cordon or uncordon, and set or remove our annotation in the same write. Raises `StepFailed`."""
        notes = {CORDONED_ANNOTATION: annotation, HELD: None}
        self._patch({"metadata": {"annotations": notes}, "spec": {"unschedulable": unschedulable}})

    def note(self, held: str) -> None:
        """Note on the node what its drain waits for; empty if nothing. Raises `StepFailed`."""
        self._patch({"metadata": {"annotations": {HELD: held or None}}})

    def _patch(self, body: Any) -> None:
        answer = self.ask("PATCH", self._path, body, content_type=MERGE)
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
    began = cordon.clock.now()
    said = ""
    evicted: set[str] = set()
    while True:
        leaving = _leaving(cordon)
        held = {}
        for pod in leaving:
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if pod["metadata"].get("deletionTimestamp"):
                held[name] = ENDING
            elif reason := _evict(cordon, pod):
                held[name] = reason
            else:
                held[name] = EVICTED
                evicted.add(pod["metadata"].get("uid", name))
        passed = cordon.clock.now() - began
        note = _remaining_pods(held, passed)
        if note != said:
            cordon.note(note)
            print(f"waiting for {note}" if note else "nothing blocks the drain any more", flush=True)
            said = note
        if not held:
            return f"the node is drained; {len(evicted)} pods were evicted"
        if timeout and passed >= timeout:
            raise StepFailed(
                f"the node was not drained within {timeout:.0f} s, {len(held)} pods are left ({_listed(held)}); "
                "it stays cordoned; allow their eviction, then delete the pod to retry"
            )
        cordon.clock.wait(EVERY)


def _remaining_pods(held: Mapping[str, str], passed: float) -> str:
    """The message about the remaining pods; those that are just terminating are left out at first."""
    refused = {name: why for name, why in held.items() if why not in (ENDING, EVICTED)}
    return _listed(held if passed >= PATIENCE else refused)[:LONGEST_NOTE]


def _listed(held: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in sorted(held.items()))


def uncordon(cordon: Cordon) -> str:
    """Uncordon the node, if `drain` cordoned it."""
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


def _leaving(cordon: Cordon) -> list[Any]:
    """The pods of the node that remain to be evicted or terminated."""
    answer = cordon.ask("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{quote(cordon.node)}")
    if answer.status != 200:
        raise StepFailed(f"can't list the pods of node {cordon.node} ({answer.reason})")
    return [pod for pod in answer.tree.get("items") or () if _leaves(pod)]


def _leaves(pod: Any) -> bool:
    metadata = pod["metadata"]
    if UPGRADER in (metadata.get("labels") or {}) or MIRROR in (metadata.get("annotations") or {}):
        return False
    if pod.get("status", {}).get("phase") in ENDED:
        return False
    owner = next((owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")), None)
    return owner is not None and owner.get("kind") != "DaemonSet"


def _evict(cordon: Cordon, pod: Any) -> str:
    """Request an eviction; returns why it was refused, empty if it was not."""
    metadata = pod["metadata"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
    }
    path = f"/api/v1/namespaces/{quote(metadata['namespace'])}/pods/{quote(metadata['name'])}/eviction"
    answer = cordon.ask("POST", path, body)
    if answer.status < 300 or answer.status == GONE:
        return ""
    if answer.status == BLOCKED:
        causes = (answer.tree.get("details") or {}).get("causes") or []
        return "; ".join(cause.get("message", "") for cause in causes) or answer.reason
    return f"its eviction is refused ({answer.reason})"
