"""Admission of a Cluster: CPU for its two reviews, and how long an API server waits for them over HTTPS."""

from __future__ import annotations

import asyncio
import copy
import json
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.measure import arguments, report, size
from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests.manifests import read_manifests
from espalier.apiserver.access.webhook_calls import HttpWebhooks
from espalier.apiserver.access.webhooks import WebhookCall
from espalier.cli.local.environment.management import management_cluster
from espalier.clusters.admission import admission
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.clusters.plan import plan
from espalier.kube.connection.pki import Authority
from espalier.kube.objects import Object, encode_json, to_bytes
from espalier.providers.registry import PROVIDERS
from espalier.releases import Releases
from espalier.runtime.caches.snapshot import Snapshot
from espalier.runtime.clock import SystemClock
from espalier.runtime.servers.webhooks import Webhooks

EXAMPLE = Path(__file__).parents[1] / "examples" / "docker.yaml"
CLUSTERS, ROUNDS, CALLS = size(200, 2), size(1000, 2), size(2000, 2)
Tree = dict[str, Any]


def clusters() -> list[Tree]:
    """As many Clusters as a management cluster may have, each with the object that it links."""
    results = []
    for number in range(CLUSTERS):
        for document in read_manifests(EXAMPLE.read_bytes(), source=EXAMPLE.name):
            tree = copy.deepcopy(document.tree)
            name = f"garden-{number}"
            tree["metadata"] = {"name": name, "namespace": "default", "uid": f"{tree['kind']}-{name}", "generation": 1}
            if tree["kind"] == "Cluster":
                tree["spec"] |= {"eksaVersion": "v0.26.0"}
                tree["spec"]["datacenterRef"]["name"] = name
            results.append(tree)
    return results


def prepared() -> tuple[Webhooks, list[Tree]]:
    """The handlers of a manager that has seen all clusters, and the Cluster API objects of each."""
    releases, snapshot = Releases.load(), Snapshot()
    observer = ClusterObserver(snapshot, providers=PROVIDERS)
    trees = clusters()
    known = [Object(encode_json(tree)) for tree in trees]
    known += [Object(to_bytes(item)) for item in (*releases.objects(), *management_cluster(releases))]
    snapshot.fill(known)
    made = []
    for tree in (tree for tree in trees if tree["kind"] == "Cluster"):
        scope = observer.scope(Object(encode_json(tree)).key)
        assert scope is not None
        assert scope.render_input is not None, scope.problem
        wanted = [
            *plan.control_plane(scope.render_input, ClusterAPIObjects()),
            *plan.worker_groups(scope.render_input, ClusterAPIObjects()),
        ]
        made += [Object(to_bytes(msgspec.to_builtins(item))) for item in wanted]
    snapshot.fill([*known, *made])
    webhooks = Webhooks(host="127.0.0.1", port=0)
    admission.Admission(observer, SystemClock().now).serve(webhooks)
    return webhooks, [tree for tree in trees if tree["kind"] == "Cluster"]


def review(operation: str, new: Tree, old: Tree | None, *, dry_run: bool = False) -> bytes:
    """What an API server sends."""
    resource = Cluster.resource
    request = {
        "uid": "1",
        "operation": operation,
        "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "name": new["metadata"]["name"],
        "namespace": "default",
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
        "object": new,
        "oldObject": old,
        "dryRun": dry_run,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def reviews(trees: list[Tree]) -> dict[str, list[bytes]]:
    """Reviews of a new Cluster, of one that is upgraded, and of the same in a dry run."""
    new = copy.deepcopy(trees[0])
    new["metadata"] |= {"name": "orchard", "uid": "orchard"}
    changed = []
    for tree in trees:
        upgraded = copy.deepcopy(tree)
        upgraded["spec"]["kubernetesVersion"] = "1.36"
        changed.append((upgraded, tree))
    return {
        "a new Cluster": [review("CREATE", new, None)],
        "an upgrade": [review("UPDATE", *pair) for pair in changed],
        "an upgrade, as a dry run that tells the plan": [review("UPDATE", *pair, dry_run=True) for pair in changed],
    }


def cpu(webhooks: Webhooks, bodies: list[bytes]) -> float:
    """CPU milliseconds for both reviews of one write."""
    for body in bodies[:20]:
        assert b'"allowed":true' in webhooks.review(admission.VALIDATE_CLUSTER, body)
    began = time.process_time()
    for number in range(ROUNDS):
        body = bodies[number % len(bodies)]
        webhooks.review(admission.MUTATE_CLUSTER, body)
        webhooks.review(admission.VALIDATE_CLUSTER, body)
    return 1000 * (time.process_time() - began) / ROUNDS


async def over_https(webhooks: Webhooks, bodies: list[bytes]) -> tuple[float, float]:
    """Median and 99th percentile, in milliseconds, of the validating review as an API server makes it."""
    now = datetime.now(UTC)
    authority = Authority.create("benchmark", now=now)
    webhooks.use(authority.issue_server("webhook", names=["127.0.0.1"], now=now))
    await webhooks.start()
    caller = HttpWebhooks()
    took = []
    try:
        url = f"https://127.0.0.1:{webhooks.port}{admission.VALIDATE_CLUSTER}"
        for number in range(CALLS):
            began = time.perf_counter()
            call = WebhookCall("validate", url, authority.certificate, 10.0, bodies[number % len(bodies)])
            assert b'"allowed":true' in await caller(call)
            took.append(1000 * (time.perf_counter() - began))
    finally:
        await caller.close()
        await webhooks.stop()
    return statistics.median(took), statistics.quantiles(took, n=100)[98]


async def main() -> None:
    arguments(__doc__).parse_args()
    webhooks, trees = prepared()
    for what, bodies in reviews(trees).items():
        report(
            f"admission of {what}, {CLUSTERS} clusters known",
            f"{cpu(webhooks, bodies):.2f} ms of CPU, defaults and rules",
        )
    median, last = await over_https(webhooks, reviews(trees)["an upgrade"])
    report(
        "validation of an upgrade through the webhook, one after the other, caller in the same process",
        f"median {median:.1f} ms, p99 {last:.1f} ms of {CALLS}",
        "aim: <= 1 ms of CPU, p99 <= 10 ms",
    )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
