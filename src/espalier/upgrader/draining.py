"""Drain and uncordon: through the API, with the pod's own ServiceAccount, and nothing of the host.

What is evicted: pods that a controller makes anew elsewhere. What stays: pods of DaemonSets, mirror pods, pods that
have ended, the upgrader's own, and pods that nobody would make anew; in place, they simply go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .api import MERGE, Answer, Api, Unreachable
from .failures import StepFailed
from .node import Clock

MARK = "anywhere.eks.amazonaws.com/cordoned-by-upgrade"
"""Annotation of a node that was cordoned by `drain`: `CORDONED_BY_UPGRADE` of the controllers, which share no module
with this program. An operator's own cordon has none, and stays."""
MIRROR = "kubernetes.io/config.mirror"
UPGRADER = "eks-d-upgrader"
ENDED = ("Succeeded", "Failed")
GONE, BLOCKED = 404, 429
EVERY = 2
"""Seconds between two looks at what is still there."""


@dataclass(frozen=True)
class Cordon:
    """What the two steps work with."""

    node: str
    api: Api
    clock: Clock

    def ask(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Answer:
        """One request. Raises `StepFailed` when there is no answer."""
        try:
            return self.api.ask(method, path, body, content_type=content_type)
        except Unreachable as error:
            raise StepFailed(f"{error}; the node stays as it is; delete the pod to try again") from error

    def read(self) -> Any:
        """The node. Raises `StepFailed`."""
        answer = self.ask("GET", self._path)
        if answer.status != 200:
            raise StepFailed(f"the node {self.node} can't be read ({answer.reason})")
        return answer.tree

    def write(self, unschedulable: bool | None, mark: str | None) -> None:
        """Cordon or uncordon, and say in the same write whose cordon it is. Raises `StepFailed`."""
        body = {"metadata": {"annotations": {MARK: mark}}, "spec": {"unschedulable": unschedulable}}
        answer = self.ask("PATCH", self._path, body, content_type=MERGE)
        if answer.status != 200:
            raise StepFailed(f"the node {self.node} can't be written ({answer.reason})")

    @property
    def _path(self) -> str:
        return f"/api/v1/nodes/{quote(self.node)}"


def drain(cordon: Cordon, version: str, *, timeout: float) -> str:
    """Cordon the node and evict its pods, PodDisruptionBudgets honoured, and wait until they are gone.

    Raises `StepFailed` after `timeout` seconds, naming the pods that are left and what holds each. The node stays
    cordoned then, so that nothing new comes while somebody looks into it.
    """
    if not cordon.read().get("spec", {}).get("unschedulable"):
        cordon.write(unschedulable=True, mark=version)
    end = cordon.clock.now() + timeout
    evicted: set[str] = set()
    while True:
        leaving = _leaving(cordon)
        held = {}
        for pod in leaving:
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if pod["metadata"].get("deletionTimestamp"):
                held[name] = "it takes its time to end"
            elif reason := _evict(cordon, pod):
                held[name] = reason
            else:
                held[name] = "it was evicted just now"
                evicted.add(pod["metadata"].get("uid", name))
        if not held:
            return f"the node is drained; {len(evicted)} pods were evicted"
        if cordon.clock.now() >= end:
            blockers = "; ".join(f"{name}: {reason}" for name, reason in sorted(held.items()))
            raise StepFailed(
                f"after {timeout:.0f} s the node is not drained, {len(held)} pods are left ({blockers}); "
                "it stays cordoned; make room for their eviction, then delete the pod to try again"
            )
        cordon.clock.wait(EVERY)


def uncordon(cordon: Cordon) -> str:
    """Let pods come to the node again, if it was `drain` that kept them away."""
    node = cordon.read()
    if MARK not in (node["metadata"].get("annotations") or {}):
        state = (
            "cordoned by somebody else, and stays so" if node.get("spec", {}).get("unschedulable") else "not cordoned"
        )
        return f"the node is {state}"
    cordon.write(unschedulable=None, mark=None)
    return "the node takes pods again"


def _leaving(cordon: Cordon) -> list[Any]:
    """The pods of the node that have to go and are still there."""
    answer = cordon.ask("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{quote(cordon.node)}")
    if answer.status != 200:
        raise StepFailed(f"the pods of node {cordon.node} can't be listed ({answer.reason})")
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
    """Ask for an eviction; returns why it was not granted, empty when it was."""
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
