"""StatefulSets, their claims, and the endpoints of their Services, driven as `test_workload_planners.py` does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from espalier.api.core import (
    DAEMON_SET,
    ENDPOINT_SLICE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    STATEFUL_SET,
)
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.simulator.workload_controllers.planners import budgets
from espalier.simulator.workload_controllers.writes import Change, Create, Delete
from tests.support.environments.pod_network import pod_network
from tests.support.histories.planned_cluster import Environment


def stateful_set(replicas: int, **spec: Any) -> Tree:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {
                    "containers": [{"name": "db", "image": "db:1", "ports": [{"name": "sql", "containerPort": 5}]}]
                },
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "10Gi"}},
                    },
                }
            ],
            **spec,
        },
    }


def cluster(replicas: int, **spec: Any) -> Environment:
    env = Environment()
    for node in ("a", "b"):
        env.add_node(node)
    env.add(DAEMON_SET, pod_network())
    env.settle()
    env.add(STATEFUL_SET, stateful_set(replicas, **spec))
    return env


def pods(env: Environment) -> dict[str, Tree]:
    return {pod["metadata"]["name"]: pod for pod in env.all(POD) if pod["metadata"].get("namespace") == "shop"}


def status(env: Environment) -> Tree:
    return dict(env.named(STATEFUL_SET, "db", "shop")["status"])


def scaled(env: Environment, replicas: int) -> None:
    env.named(STATEFUL_SET, "db", "shop")["spec"]["replicas"] = replicas


def with_image(env: Environment, image: str) -> None:
    env.named(STATEFUL_SET, "db", "shop")["spec"]["template"]["spec"]["containers"][0]["image"] = image


def unready(pod: Tree) -> None:
    for condition in pod["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "False"


def passes(env: Environment, seen: Callable[[], object]) -> list[object]:
    """The observation after each reconcile, until the cluster settles."""
    states = [seen()]
    for _ in range(60):
        if not env.one_pass():
            return states
        states.append(seen())
    raise AssertionError("the cluster does not settle")


def test_pods_start_in_order() -> None:
    env = cluster(3)
    env.settle(60)
    made = [write for write in env.writes if isinstance(write, Create) and write.resource == POD]
    assert [write.body["metadata"]["name"] for write in made][-3:] == ["db-0", "db-1", "db-2"]
    assert list(pods(env)) == ["db-0", "db-1", "db-2"]
    revision = status(env)["currentRevision"]
    assert status(env) == {
        "observedGeneration": 1,
        "replicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "currentReplicas": 3,
        "updatedReplicas": 3,
        "currentRevision": revision,
        "updateRevision": revision,
        "collisionCount": 0,
    }


def test_pod_that_is_not_ready_holds_up_those_after_it() -> None:
    env = cluster(1)
    env.settle(60)
    unready(pods(env)["db-0"])
    scaled(env, 3)
    env.settle()
    assert list(pods(env)) == ["db-0"]


def test_parallel_pods_start_together() -> None:
    env = cluster(3, podManagementPolicy="Parallel")
    env.one_pass()
    assert list(pods(env)) == ["db-0", "db-1", "db-2"]


def test_pod_knows_its_ordinal_host_name_and_claim() -> None:
    env = cluster(1)
    env.settle(60)
    pod = pods(env)["db-0"]
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-0"
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-0", "db")
    assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]


def test_claims_outlive_pods_and_their_stateful_set() -> None:
    env = cluster(2)
    env.settle(60)
    claims = {claim["metadata"]["name"]: claim["spec"]["volumeName"] for claim in env.all(PERSISTENT_VOLUME_CLAIM)}
    assert list(claims) == ["data-db-0", "data-db-1"]
    assert {claim["status"]["phase"] for claim in env.all(PERSISTENT_VOLUME_CLAIM)} == {"Bound"}
    uid = pods(env)["db-0"]["metadata"]["uid"]

    scaled(env, 0)
    env.settle()
    assert not pods(env)
    scaled(env, 1)
    env.settle(60)
    assert pods(env)["db-0"]["metadata"]["uid"] != uid
    env.delete(STATEFUL_SET, Key("shop", "db"))
    env.settle()

    assert {
        claim["metadata"]["name"]: claim["spec"]["volumeName"] for claim in env.all(PERSISTENT_VOLUME_CLAIM)
    } == claims


def test_scaling_down_takes_the_last_pod_first() -> None:
    env = cluster(3)
    env.settle(60)
    scaled(env, 1)
    seen = passes(env, lambda: tuple(pods(env)))
    assert list(dict.fromkeys(seen)) == [("db-0", "db-1", "db-2"), ("db-0", "db-1"), ("db-0",)]


def test_claim_in_use_is_deleted_after_its_pod() -> None:
    env = cluster(1)
    env.settle(60)
    env.delete(PERSISTENT_VOLUME_CLAIM, Key("shop", "data-db-0"))
    env.settle()
    assert env.all(PERSISTENT_VOLUME_CLAIM)

    scaled(env, 0)
    env.settle()
    assert not env.all(PERSISTENT_VOLUME_CLAIM)
    assert not env.all(PERSISTENT_VOLUME)


def test_pod_after_a_deleted_claim_gets_a_new_one() -> None:
    env = cluster(1)
    env.settle(60)
    [before] = env.all(PERSISTENT_VOLUME_CLAIM)
    env.delete(PERSISTENT_VOLUME_CLAIM, Key("shop", "data-db-0"))
    env.delete(POD, Key("shop", "db-0"))
    env.settle(60)
    [after] = env.all(PERSISTENT_VOLUME_CLAIM)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert status(env)["readyReplicas"] == 1


def test_new_template_replaces_the_last_pod_first() -> None:
    env = cluster(3)
    env.settle(60)
    before = status(env)["currentRevision"]
    with_image(env, "db:2")
    seen = passes(env, lambda: tuple(pod["spec"]["containers"][0]["image"] for pod in pods_in_order(env)))
    complete = [images for images in dict.fromkeys(seen) if isinstance(images, tuple) and len(images) == 3]
    assert complete == [
        ("db:1", "db:1", "db:1"),
        ("db:1", "db:1", "db:2"),
        ("db:1", "db:2", "db:2"),
        ("db:2", "db:2", "db:2"),
    ]
    assert status(env)["currentRevision"] == status(env)["updateRevision"] != before


def pods_in_order(env: Environment) -> list[Tree]:
    by_name = pods(env)
    return [by_name[name] for name in sorted(by_name)]


def test_partition_keeps_pods_below_it_as_they_are() -> None:
    env = cluster(2, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}})
    env.settle(60)
    with_image(env, "db:2")
    env.settle(60)
    assert [pod["spec"]["containers"][0]["image"] for pod in pods_in_order(env)] == ["db:1", "db:2"]
    assert status(env)["updatedReplicas"] == status(env)["currentReplicas"] == 1


def test_on_delete_replaces_deleted_pods_only() -> None:
    env = cluster(2, updateStrategy={"type": "OnDelete"})
    env.settle(60)
    with_image(env, "db:2")
    env.settle()
    assert {pod["spec"]["containers"][0]["image"] for pod in pods_in_order(env)} == {"db:1"}
    env.delete(POD, Key("shop", "db-1"), graceful=True)
    env.settle(60)
    assert [pod["spec"]["containers"][0]["image"] for pod in pods_in_order(env)] == ["db:1", "db:2"]


def test_pod_is_recreated_after_the_end_of_the_first() -> None:
    env = cluster(1)
    env.settle(60)
    with_image(env, "db:2")
    env.one_pass()
    deletes = [write for write in env.writes if isinstance(write, Delete) and write.resource == POD]
    assert [delete.graceful for delete in deletes][-1]
    assert "deletionTimestamp" in pods(env)["db-0"]["metadata"]


@pytest.mark.parametrize("published", [False, True])
def test_service_has_its_ready_pods_or_all(published: bool) -> None:
    env = cluster(2)
    env.add(SERVICE, service(targetPort="sql", publishNotReadyAddresses=published))
    env.settle(60)
    unready(pods(env)["db-1"])
    env.settle()

    [endpoint_slice] = [item for item in env.all(ENDPOINT_SLICE) if item["metadata"]["namespace"] == "shop"]
    assert endpoint_slice["ports"] == [{"name": "", "port": 5, "protocol": "TCP"}]
    assert [endpoint["targetRef"]["name"] for endpoint in endpoint_slice["endpoints"]] == ["db-0", "db-1"]
    assert [endpoint["conditions"]["ready"] for endpoint in endpoint_slice["endpoints"]] == [True, published]
    assert endpoint_slice["endpoints"][0]["hostname"] == "db-0"


def test_service_without_pods_has_an_empty_slice() -> None:
    env = cluster(0)
    env.add(SERVICE, service())
    env.settle()
    [endpoint_slice] = [item for item in env.all(ENDPOINT_SLICE) if item["metadata"]["namespace"] == "shop"]
    assert endpoint_slice["endpoints"] == []
    env.delete(SERVICE, Key("shop", "db"))
    env.settle()
    assert not [item for item in env.all(ENDPOINT_SLICE) if item["metadata"]["namespace"] == "shop"]


def service(publishNotReadyAddresses: bool = False, **port: Any) -> Tree:
    spec = {"selector": {"app": "db"}, "ports": [{"port": 80, **port}]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": spec | {"publishNotReadyAddresses": publishNotReadyAddresses},
    }


def test_budget_counts_missing_stateful_pods() -> None:
    env = cluster(3)
    env.settle()
    del env.objects[POD, Key("shop", "db-2")]
    metadata = {"name": "db", "namespace": "shop"}
    selector = {"matchLabels": {"app": "db"}}
    env.add(POD_DISRUPTION_BUDGET, {"metadata": metadata, "spec": {"selector": selector, "maxUnavailable": 1}})
    (change,) = budgets.plan(env.snapshot())
    assert isinstance(change, Change)
    budget = change.patch["status"]
    assert (budget["expectedPods"], budget["currentHealthy"], budget["disruptionsAllowed"]) == (3, 2, 0)
