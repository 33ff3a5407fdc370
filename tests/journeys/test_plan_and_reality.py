"""The plan comes true: random changes of a cluster, foreseen first, then made and watched."""

from __future__ import annotations

import asyncio
import copy
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.clusters.design.drift import gate
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, Invalid
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.releases import Releases
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.in_place_environment import IN_PLACE, identities
from tests.support.environments.in_place_environment import machines as machines_of
from tests.support.environments.in_place_environment import manifest as changed_to
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment, managed_environment
from tests.support.environments.upgraders import Upgraders
from tests.support.histories import in_place_hooks as hooks
from tests.support.histories.plan_and_reality import (
    EPOCH,
    apply,
    as_shown,
    assert_so,
    leaves_of_change,
    manifest_of_the_example,
    planned,
)
from tests.support.histories.recorded_history import Recorder, compared, recorder
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

RELEASES = Releases.load()
STORIES = int(os.environ.get("ESPALIER_PLAN_STORIES", "1"))
"""Random ones in every run, beside one with each change; `make soak` tells more."""

Change = Callable[[Tree, int], None]
"""Changes the spec of a Cluster; the number chooses among the possibilities."""


def group(spec: Tree, number: int) -> Tree:
    groups: list[Tree] = spec["workerNodeGroupConfigurations"]
    return groups[number % len(groups)]


def one_of(options: Sequence[Any], number: int) -> Any:
    return copy.deepcopy(options[number % len(options)])


def scale_control_plane(spec: Tree, number: int) -> None:
    spec["controlPlaneConfiguration"]["count"] = one_of((1, 3), number)


def scale_group(spec: Tree, number: int) -> None:
    group(spec, number)["count"] = one_of((1, 2, 3, 0, 4), number)


def add_group(spec: Tree, number: int) -> None:
    taken = {group["name"] for group in spec["workerNodeGroupConfigurations"]}
    new = {"name": f"md-{number % 3}", "count": 1 + number % 2}
    if new["name"] not in taken:
        spec["workerNodeGroupConfigurations"].append(new)


def remove_group(spec: Tree, number: int) -> None:
    groups = spec["workerNodeGroupConfigurations"]
    if len(groups) > 1:
        groups.pop(number % len(groups))


def upgrade_kubernetes(spec: Tree, number: int) -> None:
    spec["kubernetesVersion"] = one_of(("1.35", "1.36"), number)


def hold_a_group_back(spec: Tree, number: int) -> None:
    group(spec, number)["kubernetesVersion"] = one_of(("1.34", "1.35", None), number)


def upgrade_release(spec: Tree, number: int) -> None:
    spec["eksaVersion"] = one_of(("v0.26.0", "v0.25.1"), number)


def check_health(spec: Tree, number: int) -> None:
    spec["machineHealthCheck"] = one_of(({"unhealthyMachineTimeout": "7m0s"}, {"nodeStartupTimeout": "20m0s"}), number)


def check_health_of_a_group(spec: Tree, number: int) -> None:
    group(spec, number)["machineHealthCheck"] = one_of(({"maxUnhealthy": "30%"}, {"maxUnhealthy": 2}), number)


def label_a_group(spec: Tree, number: int) -> None:
    group(spec, number)["labels"] = {"tier": f"tier-{number % 3}"}


def label_the_control_plane(spec: Tree, number: int) -> None:
    spec["controlPlaneConfiguration"]["labels"] = {"tier": f"tier-{number % 3}"}


def taint_the_control_plane(spec: Tree, number: int) -> None:
    taint = {"key": f"only-{number % 2}", "value": "true", "effect": "NoSchedule"}
    spec["controlPlaneConfiguration"]["taints"] = [taint]


def tell_kubelets(spec: Tree, number: int) -> None:
    target = group(spec, number) if number % 3 else spec["controlPlaneConfiguration"]
    target["kubeletConfiguration"] = {"maxPods": 50 + number % 5}


def audit_otherwise(spec: Tree, number: int) -> None:
    policy = f"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: {one_of(('None', 'Metadata'), number)}\n"
    spec["controlPlaneConfiguration"]["auditPolicyContent"] = policy


def name_the_api_server(spec: Tree, number: int) -> None:
    spec["controlPlaneConfiguration"]["certSans"] = [f"api-{number % 3}.example.com"]


def tell_the_api_server(spec: Tree, number: int) -> None:
    spec["controlPlaneConfiguration"]["apiServerExtraArgs"] = {"v": str(number % 4)}


def set_the_pod_network(spec: Tree, number: int) -> None:
    policies: tuple[Tree, ...] = ({"policyEnforcementMode": "always"}, {}, {"policyEnforcementMode": "default"})
    spec["clusterNetwork"]["cniConfig"] = {"cilium": one_of(policies, number)}


def roll_groups_faster(spec: Tree, number: int) -> None:
    limits = one_of(({"maxSurge": 2, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}), number)
    group(spec, number)["upgradeRolloutStrategy"] = {"type": "RollingUpdate", "rollingUpdate": limits}


def forget(spec: Tree, number: int) -> None:
    """Leave out what was given before."""
    target = spec["controlPlaneConfiguration"] if number % 2 else group(spec, number // 2)
    optional = sorted(target.keys() - {"name", "count", "kubernetesVersion"})
    if optional:
        target.pop(optional[number % len(optional)])


def consent_to_a_patch(cluster: Tree, number: int) -> None:
    """Of the Cluster itself: to have a patch is asked for by an annotation."""
    cluster["metadata"]["annotations"] = one_of(({metadata_keys.PATCHES_ANNOTATION: "short-lived-tokens"}, {}), number)


CHANGES: tuple[Change, ...] = (
    consent_to_a_patch,
    scale_control_plane,
    scale_group,
    add_group,
    remove_group,
    upgrade_kubernetes,
    hold_a_group_back,
    upgrade_release,
    check_health,
    check_health_of_a_group,
    label_a_group,
    label_the_control_plane,
    taint_the_control_plane,
    tell_kubelets,
    audit_otherwise,
    name_the_api_server,
    tell_the_api_server,
    set_the_pod_network,
    roll_groups_faster,
    forget,
)


async def asked_for(env: ManagedEnvironment) -> Tree:
    """The Cluster as it is stored, without what the manager notes on it."""
    tree = (await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)).tree
    annotations = tree["metadata"].get("annotations", {})
    asked = {name: value for name, value in annotations.items() if name == metadata_keys.PATCHES_ANNOTATION}
    return {"spec": tree["spec"], **({"metadata": {"annotations": asked}} if asked else {})}


async def planned_and_made(env: ManagedEnvironment, watch: Recorder, manifest: list[Tree], seen: Counter[str]) -> bool:
    """Plan a change, make it, and compare. False when it is refused: by both, for the same fields."""
    preview = await planned(env, manifest)
    await watch.begin()
    if preview.refusals:
        with pytest.raises((Forbidden, Invalid)) as error:
            await apply(env, manifest)
        details = error.value.status.details
        assert details is not None
        # Of linked objects, rules of the CRD are judged first, and alone; of Clusters the webhook says all.
        messages = [cause.message.removeprefix("Invalid value: ") for cause in details.causes]
        assert messages
        assert set(messages) <= {refusal.message for refusal in preview.refusals}
        seen["refused"] += 1
        return False
    before = await asked_for(env)
    await apply(env, manifest)
    changed = compared(before, await asked_for(env))
    assert [leaves_of_change(change) for change in preview.asked] == ([as_shown(changed)] if changed else [])
    await asyncio.sleep(1)  # simulated: an annotation alone makes no new generation that could be waited for
    await env.until_ready()
    await env.until(lambda cluster: cluster.metadata.annotations[metadata_keys.GATE_ANNOTATION] != gate.OPENED)
    happened = await watch.end()
    assert_so(preview, happened)
    seen["accepted"] += 1
    seen["with machines"] += bool(happened.going or happened.coming)
    seen["shipped exactly"] += preview.cni is not None and preview.cni.is_exact
    seen["replaced"] += sum(len(item.replaced) for item in preview.groups)
    assert (await planned(env, manifest)).is_empty  # and then there is nothing left to do
    return True


async def story(simulation: Simulation, steps: Sequence[tuple[Change | None, int]], seen: Counter[str]) -> None:
    async with managed_environment(simulation.clock) as env:
        watching = Client(InProcessTransport(env.server), user_agent="recorder")
        manifest = manifest_of_the_example()
        cluster = manifest[-1]["spec"]
        cluster |= {"kubernetesVersion": "1.34", "eksaVersion": "v0.25.0"}
        cluster["workerNodeGroupConfigurations"] = [{"name": "md-0", "count": 1}]
        await apply(env, manifest)
        await env.until_ready()
        history = [manifest]
        async with recorder(env, watching) as watch:
            for change, number in steps:
                following = copy.deepcopy(history[-1])
                if change is None:
                    following = copy.deepcopy(one_of(history, number))  # taking back
                else:
                    change(following[-1] if change is consent_to_a_patch else following[-1]["spec"], number)
                _without_nulls(following[-1]["spec"])
                if await planned_and_made(env, watch, following, seen):
                    history.append(following)


def _without_nulls(spec: Tree) -> None:
    for configuration in spec["workerNodeGroupConfigurations"]:
        if configuration.get("kubernetesVersion", "") is None:
            del configuration["kubernetesVersion"]


@pytest.mark.demand("I20", L18="field by field, the CNI's objects as well")
@pytest.mark.parametrize(("stories", "steps"), [(STORIES, 5), pytest.param(40 * STORIES, 10, marks=pytest.mark.soak)])
def test_the_plan_comes_true(stories: int, steps: int) -> None:
    seen: Counter[str] = Counter()

    @example([(change, index) for index, change in enumerate((*CHANGES, None))])
    @settings(
        max_examples=stories,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.lists(st.tuples(st.sampled_from((*CHANGES, None)), st.integers(0, 1000)), min_size=steps, max_size=steps))
    def tell(changes: list[tuple[Change | None, int]]) -> None:
        run(lambda simulation: story(simulation, changes, seen), epoch=EPOCH, seed=1)

    tell()
    # What was told must have been worth telling.
    assert seen["accepted"] >= 20, seen
    assert seen["with machines"] >= 8, seen
    assert seen["replaced"] >= 12, seen
    assert seen["shipped exactly"] >= 1, seen


RELEASE: Tree = {"eksaVersion": "v0.26.0"}
SETTINGS: Tree = {
    "controlPlaneConfiguration": {
        "count": 3,
        "upgradeRolloutStrategy": IN_PLACE,
        "auditPolicyContent": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n",
        "apiServerExtraArgs": {"v": "3"},
    },
    "workerNodeGroupConfigurations": [
        {
            "name": "md-0",
            "count": 2,
            "upgradeRolloutStrategy": IN_PLACE,
            "kubeletConfiguration": {"maxPods": 50},
        }
    ],
}


@pytest.mark.demand("U11")
@pytest.mark.soak
@pytest.mark.parametrize(
    ("change", "flag", "brought"),
    sampled(
        [
            (RELEASE, "--service-account-extend-token-expiration=false", "cgroup-driver"),
            (SETTINGS, "--v=3", "audit-policy.yaml"),
        ],
        1,
    ),
    ids=["release", "settings"],
)
def test_hooks_apply_flags_and_files_as_planned(change: Tree, flag: str, brought: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        preview = await env.preview(GARDEN, await changed_to(env, change), front_end=FrontEnd.HOOKS)
        assert (preview.refusals, preview.stops) == ((), "")
        assert not any(group.going or group.coming for group in preview.groups)
        planned = {item.name for group in preview.groups for item in group.upgraded}

        seen = await hooks.everything(env, **change)
        assert (
            {item.spec.machine.name for item in seen.values()}
            == planned
            == {item.name for item in await machines_of(env)}
        )
        assert await identities(env) == before
        assert upgraders.changes.keys() == planned
        for machine in await machines_of(env, control_plane=True):
            assert flag in upgraders.static_pods[machine.name]["kube-apiserver"].flags
            assert brought in str(upgraders.changes[machine.name])
        again = await env.preview(GARDEN, [], front_end=FrontEnd.HOOKS)
        assert not any(group.going or group.upgraded for group in again.groups)

    hooks.journey(story, eksaVersion="v0.25.1")
