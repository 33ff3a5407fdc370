"""Checks of Hardware: its problems, the demand of Clusters, and the allocation."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.providers.tinkerbell.hardware import demand
from espalier.providers.tinkerbell.hardware.demand import BareMetalCluster, Demand, Owner, Selection, canonical
from espalier.providers.tinkerbell.hardware.findings import MOST_SHOWN, Config, ConfigResult, judge, problems
from espalier.providers.tinkerbell.hardware.rack import NAMESPACES, HardwareState, hardware_states
from espalier.providers.tinkerbell.hardware_kinds import OWNER_NAME, BMCMachine, Hardware
from espalier.providers.tinkerbell.kinds import TinkerbellMachineConfig
from tests.support.providers import hardware


def objects(trees: list[Tree], kind: str) -> list[Object]:
    return [Object(msgspec.json.encode(tree)) for tree in trees if tree["kind"] == kind]


def states(trees: list[Tree]) -> tuple[HardwareState, ...]:
    secrets = {object_.name: object_ for object_ in objects(trees, SECRET.kind)}
    return hardware_states(
        objects(trees, Hardware.resource.kind), objects(trees, BMCMachine.resource.kind), secrets.get
    )


def piece(name: str, **changes: object) -> Tree:
    tree: Tree = {"kind": "Hardware", "metadata": {"name": name, **changes.pop("metadata", {})}}  # type: ignore[dict-item]
    interface = {"dhcp": {"mac": f"3c:ec:ef:00:00:{ord(name[0]):02x}", "ip": {"address": f"10.0.0.{ord(name[0])}"}}}
    return tree | {"spec": {"disks": [{"device": "/dev/sda"}], "interfaces": [interface]} | changes}


def test_hardware_of_an_inventory_has_no_problems() -> None:
    states_of_rack = states(hardware.rack(2, 3))
    assert [hardware_state.problems for hardware_state in states_of_rack] == [()] * 5
    assert [hardware_state.holder for hardware_state in states_of_rack] == [""] * 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"disks": []}, "spec.disks: found no device"),
        ({"disks": [{}]}, "spec.disks: found no device"),
        ({"disks": "sda"}, "it can't be read: Expected `array`"),
        ({"interfaces": []}, "spec.interfaces: found no dhcp.mac"),
        ({"interfaces": [{"dhcp": {"mac": "3C:EC:EF:00:00:62"}}]}, 'dhcp.mac: found "3c:ec:ef:00:00:62", which other'),
        (
            {"interfaces": [{"dhcp": {"mac": "3c:ec:ef:00:00:01", "ip": {"address": "::ffff:10.0.0.98"}}}]},
            'dhcp.ip.address: found "10.0.0.98", which other',
        ),
        ({"bmcRef": {"kind": "Machine", "name": "x" * 500}}, f'found "Machine" "{"x" * 100}", but there is no such'),
        ({"bmcRef": {"kind": "Node", "name": "bmc"}}, 'spec.bmcRef: found "Node" "bmc", but there is no such Machine'),
    ],
)
def test_each_problem_of_hardware_is_named(changes: Tree, message: str) -> None:
    bmc = {"kind": "Machine", "metadata": {"name": "bmc"}, "spec": {"connection": {"host": "10.0.0.1"}}}
    (first, second) = states([piece("a", **changes), piece("b"), bmc])
    assert len(first.problems) == 1
    assert message in first.problems[0]
    assert bool(second.problems) == ("which other" in message)


def reached(**account: str) -> Tree:
    return {"spec": {"connection": {"host": "10.0.0.1", "authSecretRef": account}}}


def secret(name: str, data: Tree) -> Tree:
    return {"kind": "Secret", "metadata": {"name": name, "namespace": "eksa-system"}, "data": data}


AWAY = {"status": {"conditions": [{"type": "Contactable", "status": "False"}]}}


@pytest.mark.parametrize(
    ("bmc", "message"),
    [
        (reached(name="s", namespace="team-a"), 'namespace: found "team-a"; allowed: eksa-system'),
        (reached(name="none"), 'found "none", but there is no such Secret'),
        (
            reached(name="empty"),
            "of Secret eksa-system/empty, with the account of a BMC; found usr: add password to the",
        ),
        (reached(name="blank"), "found password without content: add password to the Secret"),
        ({"spec": {}}, "can't be read"),
        (reached(name="s") | AWAY, "can't be reached"),
    ],
)
def test_each_problem_of_a_bmc_is_named(bmc: Tree, message: str) -> None:
    trees = [
        piece("a", bmcRef={"kind": "Machine", "name": "bmc"}),
        {"kind": "Machine", "metadata": {"name": "bmc"}, **bmc},
        {"kind": "Secret", "metadata": {"name": "s"}, "data": {"username": "YQ==", "password": "YQ=="}},
        secret("empty", {"username": "YQ==", "usr": "YQ=="}),
        secret("blank", {"username": "YQ==", "password": "IAo="}),
    ]
    ((problem,),) = [hardware_state.problems for hardware_state in states(trees)]
    assert message in problem


# Demand.

CP, WORKERS = {"type": "cp"}, {"type": "worker"}


def config(labels: dict[str, str]) -> TinkerbellMachineConfig:
    return msgspec.convert({"spec": {"osFamily": "ubuntu", "hardwareSelector": labels}}, TinkerbellMachineConfig)


def terms(labels: dict[str, str]) -> bytes:
    return canonical([LabelSelector(match_labels=labels)])


def cluster(**group: object) -> eksa.Cluster:
    reference = {"kind": "TinkerbellMachineConfig"}
    workers = {"name": "md-0", "count": 2, "machineGroupRef": reference | {"name": "w"}}
    spec = {
        "kubernetesVersion": "1.35",
        "controlPlaneConfiguration": {"count": 3, "machineGroupRef": reference | {"name": "cp"}},
        "workerNodeGroupConfigurations": [workers | group],
    }
    return msgspec.convert({"metadata": {"name": "forge", "namespace": "team-a"}, "spec": spec}, eksa.Cluster)


IN_PLACE = {"upgradeRolloutStrategy": {"type": "InPlace"}}
TWO = {"upgradeRolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}}
SAME = frozenset({terms(WORKERS)})


@pytest.mark.parametrize(
    ("group", "owner", "expected"),
    [
        ({}, None, (2, 0, True)),
        ({}, Owner(2, "1.35", SAME), (2, 0, False)),
        ({"count": 3}, Owner(2, "1.35", SAME), (3, 0, True)),
        ({"count": 1}, Owner(2, "1.35", SAME), (1, 0, False)),
        ({}, Owner(2, "1.34", SAME), (2, 1, True)),
        (TWO, Owner(2, "1.34", SAME), (2, 2, True)),
        (IN_PLACE, Owner(2, "1.34", SAME), (2, 0, False)),
        ({"kubernetesVersion": "1.34"}, Owner(2, "1.34", SAME), (2, 0, False)),
        ({}, Owner(2, "1.35", SAME, is_rolling=True), (2, 1, False)),
        ({}, Owner(2, "1.35", frozenset({terms(CP)})), (2, 1, True)),
        ({"autoscalingConfiguration": {"minCount": 4, "maxCount": 5}}, None, (4, 0, True)),
    ],
)
def test_demand_of_group_follows_from_its_machines(
    group: Tree, owner: Owner | None, expected: tuple[int, int, bool]
) -> None:
    owners = {"forge-md-0": owner} if owner is not None else {}
    demand_of_group = demand.demands(cluster(**group), {"w": config(WORKERS)}, owners)["w"]
    assert (demand_of_group.machines, demand_of_group.spare, demand_of_group.is_new) == expected


def test_groups_of_equal_selectors_need_their_total() -> None:
    demand_by_config = demand.demands(cluster(), {"w": config(CP), "cp": config(CP)}, {})
    assert demand_by_config["w"] == demand_by_config["cp"]
    assert demand_by_config["w"].machines == 5


# Who gets what.

SELECTION = Selection("spec.hardwareSelector type=worker", terms(WORKERS))
ALSO = Selection("spec.hardwareAffinity.required", canonical([LabelSelector(match_labels=WORKERS)] * 2))
"""Another one, which selects the same."""


def state(name: str, holder: str = "", namespaces: frozenset[str] | None = None, *problems: str) -> HardwareState:
    return HardwareState(name, WORKERS, holder, namespaces, problems=problems)


def bare_metal_cluster(
    name: str, machines: int, *own: str, age: str = "", spare: int = 0, is_new: bool = True
) -> BareMetalCluster:
    needs = {"w": Demand(SELECTION, machines, spare, is_new)}
    return BareMetalCluster(Key(f"team-{name}", name), (age or name, name), 1, needs, frozenset(own))


def results(states: list[HardwareState], *clusters: BareMetalCluster) -> dict[str, ConfigResult]:
    configs = [Config(Key(bare_metal.key.namespace, "w"), SELECTION, (bare_metal,)) for bare_metal in clusters]
    return {key.namespace.removeprefix("team-"): result for key, result in judge(states, clusters, configs).items()}


def short(states: list[HardwareState], *clusters: BareMetalCluster) -> set[str]:
    return {name for name, result in results(states, *clusters).items() if result.clusters[0].message}


FREE = [state("one"), state("two"), state("three")]


def test_free_hardware_goes_to_the_oldest_fit_cluster() -> None:
    assert short(FREE, bare_metal_cluster("a", 2), bare_metal_cluster("b", 2)) == {"b"}
    assert short(FREE, bare_metal_cluster("a", 2, age="z"), bare_metal_cluster("b", 2)) == {"a"}
    assert short(FREE, bare_metal_cluster("a", 9), bare_metal_cluster("b", 2)) == {"a"}
    assert short(FREE, bare_metal_cluster("a", 2), bare_metal_cluster("b", 1)) == set()


def test_running_cluster_gets_hardware_before_new_ones() -> None:
    states = [*FREE, state("four", "b-1")]
    assert short(states, bare_metal_cluster("a", 2), bare_metal_cluster("b", 3, "b-1")) == {"a"}
    # What Cluster API was asked for is needed: nobody waits for it, and nobody else gets it.
    assert short(FREE, bare_metal_cluster("a", 2), bare_metal_cluster("b", 9, "b-1", is_new=False)) == {"a"}


def test_hardware_is_allocated_once() -> None:
    needs = {"w": Demand(SELECTION, 1, is_new=True), "x": Demand(ALSO, 1, is_new=True)}
    older = bare_metal_cluster("a", 0)._replace(demands=needs)
    assert short([state("one")], older, bare_metal_cluster("b", 1)) == {"a"}


def test_hardware_of_other_namespaces_is_not_allocated() -> None:
    mine, theirs = frozenset({"team-a"}), frozenset({"team-b"})
    states = [state("one", "", mine), state("two", "", theirs)]
    result = results(states, bare_metal_cluster("a", 2))["a"]
    assert "2 Hardware is needed; found 0 used by this cluster, 1 free, 0 used by others" in result.clusters[0].message
    assert "type=worker: selects 1 Hardware that namespace team-a is not permitted to use" in result.problems[0]
    assert NAMESPACES in result.problems[0]


def test_hardware_reserved_by_others_is_a_number() -> None:
    result = results(FREE, bare_metal_cluster("a", 2), bare_metal_cluster("b", 2, spare=1))["b"].clusters[0]
    assert result.message == (
        "spec.hardwareSelector type=worker: 3 Hardware is needed, 1 of it while machines are replaced; found 0 used by "
        "this cluster, 1 free, 2 more needed by other clusters, 0 used by others; add Hardware with these labels, "
        "release some, or request fewer machines, or upgrade in place"
    )


def test_problems_are_told_to_possible_users() -> None:
    states = [
        state("free", "", None, "no disk"),
        state("own", "a-1", None, "no mac"),
        state("other", "b-1", None, "broken"),
        state("reserved", "", frozenset({"team-b"}), "too old"),
    ]
    by_namespace = results(states, bare_metal_cluster("a", 1, "a-1"), bare_metal_cluster("b", 1, "b-1"))
    assert by_namespace["a"].problems[1:] == ("Hardware free: no disk", "Hardware own: no mac")
    assert by_namespace["b"].problems == (
        "Hardware free: no disk",
        "Hardware other: broken",
        "Hardware reserved: too old",
    )


def test_messages_do_not_name_hardware_of_others() -> None:
    needs = {"w": Demand(SELECTION, 1), "x": Demand(ALSO, 1)}
    mine = bare_metal_cluster("a", 0, "a-1")._replace(demands=needs)
    states = [state("free"), state("own", "a-1"), state("other", "b-1"), state("reserved", "", frozenset({"team-b"}))]
    assert results(states, mine)["a"].clusters[0].message == (
        "spec.hardwareSelector type=worker: selects 4 Hardware (free, own) that TinkerbellMachineConfig x selects, "
        "too, so that machines of either could get it; use different labels"
    )


def test_many_problems_are_counted() -> None:
    many = [state(f"w-{n}", "", None, "no disk") for n in range(MOST_SHOWN + 3)]
    assert results(many, bare_metal_cluster("a", 1))["a"].problems[-1] == "and 3 more problems with Hardware"


needs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)), max_size=6)


@given(st.integers(0, 8), needs)
def test_allocation_is_unique_and_leaves_none_waiting(free: int, asked: list[tuple[int, int, int]]) -> None:
    """Who is served gets all that he needs; who is not could not be, with what those before him left."""
    rack = [state(f"free-{n}") for n in range(free)]
    clusters = []
    for number, (machines, own, spare) in enumerate(asked):
        names = [f"{number}-{index}" for index in range(own)]
        rack += [state(f"held-{name}", name) for name in names]
        clusters.append(bare_metal_cluster(chr(97 + number), machines, *names, spare=spare))
    waiting = short(rack, *clusters)
    left = free
    for bare_metal in sorted(clusters, key=lambda bare_metal: bare_metal.allocation_order):
        missing = max(0, bare_metal.demands["w"].total - len(bare_metal.machines))
        assert (bare_metal.key.name in waiting) == (missing > left)
        left -= missing if missing <= left else 0
    assert left >= 0


# What it means for a Cluster.


def child(**status: object) -> Object:
    metadata = {"name": "w", "namespace": "team-a", "generation": 2}
    tree = {"kind": "TinkerbellMachineConfig", "metadata": metadata, "spec": {"osFamily": "ubuntu"}, "status": status}
    return Object(msgspec.json.encode(tree))


VALID = {"specValid": True, "observedGeneration": 2}
ENOUGH = {"name": "forge", "generation": 0}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (VALID | {"clusters": [ENOUGH]}, ""),
        (VALID | {"clusters": [ENOUGH | {"reason": "NotEnoughHardware", "message": "x"}]}, "NotEnoughHardware"),
        (VALID | {"clusters": [ENOUGH | {"generation": 7}]}, "LinkedObjectsNotChecked"),
        (VALID | {"clusters": [ENOUGH | {"name": "other"}]}, "LinkedObjectsNotChecked"),
        (VALID | {"clusters": [ENOUGH], "observedGeneration": 1}, "LinkedObjectsNotChecked"),
        ({"specValid": False, "observedGeneration": 1}, "LinkedObjectsNotChecked"),
        ({"specValid": False, "observedGeneration": 2}, "MachineConfigInvalid"),
        ({}, "LinkedObjectsNotChecked"),
    ],
)
def test_cluster_waits_until_its_configs_are_judged(status: Tree, reason: str) -> None:
    wait = next(iter(problems(cluster(), [child(**status)], True)), None)
    assert (wait.reason if wait is not None else "") == reason


def test_label_of_owner_names_holder_of_hardware() -> None:
    (hardware_state,) = states(
        [piece("a", metadata={"labels": {OWNER_NAME: "m"}, "annotations": {NAMESPACES: "b, c,"}})]
    )
    assert (hardware_state.holder, hardware_state.namespaces) == ("m", frozenset("bc"))
