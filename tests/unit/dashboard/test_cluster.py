"""The page of one cluster, and its HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import htpy as h
import pytest

from espalier.api.capi.machine import Machine
from espalier.api.core import CORE_EVENT
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL
from espalier.clusters.effects.diff import FieldChange, ObjectChange
from espalier.dashboard.html import cluster as html
from espalier.dashboard.html import parts
from espalier.dashboard.models.cluster import MOST_MACHINES, ClusterPage, MachineRow, Parts, health_of, page_of
from espalier.dashboard.models.health import Health
from espalier.dashboard.models.plans import Plan
from espalier.kube.objects import Object, to_bytes
from espalier.upgrades.node.containers import STEPS
from tests.support.objects.hostile_html import HOSTILE, Elements

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW = "v1.35.4-eks-1-35-1", "v1.36.3-eks-1-36-1"
IN_PLACE = {"upgradeRolloutStrategy": {"type": "InPlace"}}


def before(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def object_(kind: Any, name: str, **tree: Any) -> Object:
    resource: Resource = kind if isinstance(kind, Resource) else kind.resource
    metadata = {"name": name, "namespace": "eksa-system", "uid": f"uid-{name}", "creationTimestamp": before(600)}
    metadata |= tree.pop("metadata", {})
    return Object(to_bytes({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **tree}))


def condition(type_: str, status: str, reason: str = "Why", message: str = "", seconds: float = 60) -> Tree:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": before(seconds),
    }


def cluster(*conditions: Tree, strategy: Tree | None = None, **spec: Any) -> Object:
    return object_(
        Cluster,
        "garden",
        metadata={"namespace": "default"},
        spec={
            "kubernetesVersion": "1.36",
            "controlPlaneConfiguration": {"count": 1, **(strategy or {})},
            "workerNodeGroupConfigurations": [{"name": "md-0", "count": 2, **(strategy or {})}],
            "datacenterRef": {"kind": "DockerDatacenterConfig", "name": "garden"},
            **spec,
        },
        status={"conditions": list(conditions)},
    )


def machine(
    name: str, version: str = NEW, *, ready: str = "True", up_to_date: str = "True", phase: str = "Running", **more: Any
) -> Object:
    group = {CONTROL_PLANE_LABEL: ""} if name.startswith("cp") else {DEPLOYMENT_NAME_LABEL: "garden-md-0"}
    return object_(
        Machine,
        name,
        metadata={"labels": {CLUSTER_NAME_LABEL: "garden", **group}, **more},
        spec={
            "clusterName": "garden",
            "version": version,
            "bootstrap": {},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachine", "name": name},
        },
        status={
            "phase": phase,
            "conditions": [
                condition("Ready", ready, message=f"{name} waits", seconds=500),
                condition("UpToDate", up_to_date),
            ],
        },
    )


def upgrade(name: str, *conditions: Tree) -> Object:
    return object_(
        NodeUpgrade,
        f"{name}-node-upgrader",
        spec={
            "machine": {"name": name, "namespace": "eksa-system"},
            "kubernetesVersion": NEW,
            "nodeType": "Worker",
        },
        status={"conditions": list(conditions)},
    )


def page(root: Object, *objects: Object, events: Sequence[Object] = ()) -> ClusterPage:
    return page_of(Parts(root, objects, events), NOW)


def row(object_: Object, *others: Object) -> MachineRow:
    (first, *_) = (each for each in page(cluster(), object_, *others).machines if each.name == object_.name)
    return first


@pytest.mark.parametrize(
    ("object_", "health", "word"),
    [
        (machine("a"), Health.READY, "Ready"),
        (machine("a", up_to_date="False"), Health.CHANGING, "Outdated"),
        (machine("a", ready="False", phase="Provisioning"), Health.CHANGING, "Being made"),
        (machine("a", ready="False"), Health.FAILING, "Not ready"),
        (machine("a", ready="Unknown"), Health.UNKNOWN, "Not ready"),
        (machine("a", deletionTimestamp=before(5)), Health.CHANGING, "Being removed"),
    ],
)
def test_state_of_a_machine_is_what_it_reports(object_: Object, health: Health, word: str) -> None:
    assert row(object_).state == (health, word)


def test_machines_are_in_the_order_of_their_groups() -> None:
    shown = page(cluster(), machine("b"), machine("a"), machine("cp-1"))
    assert [(each.name, each.group) for each in shown.machines] == [
        ("cp-1", "control plane"),
        ("a", "md-0"),
        ("b", "md-0"),
    ]


def test_machine_that_is_upgraded_has_its_steps() -> None:
    done = [condition(step.condition, "True") for step in STEPS[:2]]
    running = condition("Ready", "False", STEPS[2].doing, "step 3 of 8 on node a")
    shown = row(machine("a", OLD), upgrade("a", *done, running))
    assert [step.state for step in shown.steps] == ["done", "done", "current", *["open"] * 5]
    assert (shown.state.word, shown.version, shown.target) == ("Upgrading", OLD, NEW)
    assert shown.message == "step 3 of 8 on node a"


def test_failed_step_of_an_upgrade_fails_its_machine() -> None:
    failed = condition("Ready", "False", f"{STEPS[0].doing}Failed", "no space left on device")
    shown = row(machine("a", OLD), upgrade("a", failed))
    assert shown.state == (Health.FAILING, "Upgrade failed")
    assert [step.state for step in shown.steps] == ["failed", *["open"] * 7]


def test_no_progress_is_shown_of_a_ready_cluster() -> None:
    ready = cluster(condition("Ready", "True"))
    assert page(ready, machine("cp-1"), machine("a"), machine("b")).progress is None


def test_replacement_counts_machines_by_version() -> None:
    """Workers that wait for the control plane are up to date by their own template."""
    shown = page(
        cluster(condition("Ready", "False", Reason.ROLLING_UPGRADE_IN_PROGRESS)),
        machine("cp-1", OLD, up_to_date="False"),
        machine("cp-2", NEW),
        machine("a", OLD),
        machine("b", OLD),
    ).progress
    assert shown is not None
    assert (shown.done, shown.total) == (1, 3)
    # Each machine took 100 s to be ready: two workers one after the other.
    assert shown.ends == "2026-01-01T00:03:20Z"
    assert shown.began == before(60)
    assert shown.assumption == ""


def test_machine_is_of_the_group_of_the_longest_name() -> None:
    """Machines of group md-0 are none of group md, which has none yet; those of its failure domains are."""
    groups = [{"name": "md-0", "count": 2}, {"name": "md", "count": 2}]
    zone = object_(
        Machine,
        "z",
        metadata={"labels": {CLUSTER_NAME_LABEL: "garden", DEPLOYMENT_NAME_LABEL: "garden-md-zone"}},
        spec=machine("z").tree["spec"],
        status=machine("z").tree["status"],
    )
    root = cluster(condition("Ready", "False", "ScalingUp"), workerNodeGroupConfigurations=groups)
    shown = page(root, machine("cp-1"), machine("a"), machine("b"), zone).progress
    assert shown is not None
    assert (shown.done, shown.total) == (4, 5)


def test_estimate_without_measured_machines_says_so() -> None:
    shown = page(cluster(condition("Ready", "False", Reason.ROLLING_UPGRADE_IN_PROGRESS))).progress
    assert shown is not None
    assert shown.assumption == "assuming 300 s for each machine"


def test_progress_is_not_promised_if_a_person_must_act() -> None:
    assert page(cluster(condition("Ready", "False", Reason.MISSING_DEPENDENT_OBJECTS))).progress is None


def test_progress_in_place_is_that_of_describe() -> None:
    shown = page(
        cluster(condition("Ready", "False", Reason.IN_PLACE_UPGRADE_IN_PROGRESS), strategy=IN_PLACE),
        machine("cp-1", NEW),
        machine("a", OLD),
        upgrade("a"),
    ).progress
    assert shown is not None
    assert shown.words.endswith("nodes are upgraded in place")
    assert shown.assumption == "assuming 200 s for each node"


def test_condition_says_what_to_do() -> None:
    (shown,) = page(cluster(condition("Ready", "False", Reason.MISSING_DEPENDENT_OBJECTS, "no config"))).conditions
    assert (shown.takes, shown.meaning) == (
        "somebody has to act",
        "an object that the spec names does not exist; create it",
    )
    assert health_of(shown) is Health.FAILING


@pytest.mark.parametrize(
    ("type_", "status", "reason", "health"),
    [
        ("Ready", "True", "x", Health.READY),
        ("Ready", "False", Reason.ROLLING_UPGRADE_IN_PROGRESS, Health.CHANGING),
        ("Ready", "Unknown", "x", Health.UNKNOWN),
        ("Synced", "False", Reason.DRIFTED, Health.FAILING),
        ("Stalled", "True", "x", Health.FAILING),
        ("Stalled", "False", "x", Health.READY),
        ("Reconciling", "True", "x", Health.CHANGING),
    ],
)
def test_condition_has_the_state_it_stands_for(type_: str, status: str, reason: str, health: Health) -> None:
    (shown,) = page(cluster(condition(type_, status, reason))).conditions
    assert health_of(shown) is health


def test_obstacle_is_that_of_describe() -> None:
    shown = page(cluster(condition("Ready", "False")), machine("a", ready="False"))
    assert shown.obstacle == ("Machine", "a", "Why: a waits")
    assert page(cluster(condition("Ready", "False"))).obstacle is None


def event(uid: str = "uid-garden", **tree: Any) -> Object:
    about = {"kind": "Cluster", "name": "garden", "uid": uid}
    return object_(CORE_EVENT, tree.pop("name", "e"), involvedObject=about, **tree)


def test_events_are_those_of_this_cluster_newest_first() -> None:
    events = [
        event(lastTimestamp=before(50), reason="Old", message="m", type="Normal"),
        event(lastTimestamp=before(5), reason="New", message="m", type="Warning", count=3),
        event(series={"lastObservedTime": before(20), "count": 7}, reason="Series", message="m", type="Normal"),
        event("uid-of-an-earlier-one", lastTimestamp=before(1), reason="Other", message="m", type="Normal"),
    ]
    shown = page(cluster(), events=events).events
    assert [(each.reason, each.times) for each in shown] == [("New", 3), ("Series", 7), ("Old", 1)]


@pytest.mark.parametrize("status", [None, {"conditions": "x"}, {"conditions": [7, {}]}, {"conditions": [{"type": 7}]}])
def test_malformed_objects_do_not_break_the_page(status: Any) -> None:
    root = object_(Cluster, "garden", metadata={"namespace": "default"}, spec={"kubernetesVersion": 7}, status=status)
    broken = object_(Machine, "broken", spec={"version": 7})
    shown = page(root, broken, machine("a"), events=[event(series="x", count="y", message=7)])
    assert [each.name for each in shown.machines] == ["a"]
    assert shown.progress is None


def test_secrets_of_specs_are_in_no_message() -> None:
    proxy = {"httpProxy": "http://me:hunter2hunter2@proxy:3128"}
    message = "the proxy http://me:hunter2hunter2@proxy:3128 refuses me:hunter2hunter2"
    root = cluster(condition("Ready", "False", "Why", message), proxyConfiguration=proxy)
    shown = page(root, events=[event(message=message)])
    assert "hunter2" not in repr(shown)


def test_machines_beyond_a_limit_are_counted() -> None:
    shown = page(cluster(), *(machine(f"m-{number}") for number in range(MOST_MACHINES + 3)))
    assert (len(shown.machines), shown.more_machines) == (MOST_MACHINES, 3)
    assert "3 more machines are not shown" in html.machines(shown.machines, shown.more_machines, "", NOW)


def test_no_section_has_an_element_of_a_tenant() -> None:
    root = cluster(condition(HOSTILE, "False", HOSTILE, HOSTILE))
    shown = page(
        root,
        machine(HOSTILE, HOSTILE, ready="False"),
        upgrade(HOSTILE, condition("Ready", "False", HOSTILE, HOSTILE)),
        events=[event(reason=HOSTILE, message=HOSTILE, type=HOSTILE)],
    )
    change = ObjectChange("change", HOSTILE, HOSTILE, HOSTILE, HOSTILE, (FieldChange(HOSTILE, HOSTILE, [HOSTILE]),))
    plan = Plan((f"  + {HOSTILE}", HOSTILE), False, False, (f"{change}: {HOSTILE}", HOSTILE), (change,))
    parser = Elements()
    for text in (
        html.machines(shown.machines, 0, HOSTILE, NOW),
        html.conditions(shown.conditions, NOW),
        html.events(shown.events, "", NOW),
        html.objects(shown.objects, 0, [HOSTILE], NOW),
        html.plan(plan),
        html.plan(Plan(problem=HOSTILE)),
        html.drift(plan, ""),
    ):
        parser.feed(text)
        assert not re.search("[\u202e\x1b]", text)
    assert parser.active == set()


def test_html_steers_no_direction_and_no_terminal() -> None:
    assert parts.html(h.p(title="\u202e")["a\x1b[2J\u2067b"]) == '<p title="\\u202e">a\\x1b[2J\\u2067b</p>'


def test_drift_has_both_values_of_each_field() -> None:
    change = ObjectChange("change", "v1", "Thing", "ns", "a", (FieldChange("spec.replicas", 3, None),))
    text = html.drift(Plan(drift=("Thing ns/a: spec.replicas", "Thing ns/b is missing"), drifted=(change,)), "")
    assert "spec.replicas" in text
    assert "<del>3</del>" in text
    assert "<ins>nothing</ins>" in text
    assert "Thing ns/b is missing" in text


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(("x",)), "nothing would change"),
        (Plan(("x",), is_empty=False), "the manager does this next"),
        (Plan(("x",), stops=True), "it stops until somebody acts"),
        (Plan(problem="no rights"), "no rights"),
        (None, "being made"),
    ],
)
def test_plan_says_what_it_means(plan: Plan | None, words: str) -> None:
    assert words in html.plan(plan)
