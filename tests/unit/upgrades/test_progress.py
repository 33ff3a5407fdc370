"""How a pod's containers become conditions: what is done stays done, and what failed is named."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.meta import Condition, Tree
from espalier.kube.objects import Object, encode_json
from espalier.upgrades.node import pod
from espalier.upgrades.node import status as progress
from espalier.upgrades.node.containers import DRAIN, KUBEADM, STEPS
from espalier.upgrades.observed.views import Pod

DONE: Tree = {"terminated": {"exitCode": 0, "reason": "Completed"}}
RUNS: Tree = {"running": {}}
WAITS: Tree = {"waiting": {"reason": "PodInitializing"}}


def failed(message: str = "", code: int = 1) -> Tree:
    return {"terminated": {"exitCode": code, "reason": "Error", "message": message}}


def upgrader(
    states: dict[str, Tree], *, done: frozenset[str] = frozenset(), drains: bool = True, phase: str = ""
) -> Pod:
    made = pod.pod(pod.Upgrader("a/b", "n", "image", "worker", "v1.36.3", "account", done=done, drains=drains))
    statuses = [
        {"name": container["name"], "state": states.get(container["name"], WAITS)}
        for container in made["spec"]["initContainers"]
    ]
    main = [{"name": "done", "state": states.get("done", WAITS)}]
    status = {"phase": phase, "initContainerStatuses": statuses, "containerStatuses": main}
    return msgspec.convert(made | {"status": status}, Pod)


def by_type(conditions: list[Condition]) -> dict[str, Condition]:
    return {condition.type: condition for condition in conditions}


def test_steps_get_the_arguments_that_they_need() -> None:
    """A drain without its limit would wait for ever, kubeadm without patches would drop a node's own settings."""
    asked = pod.Upgrader(
        "a/b", "n", "image", "worker", "v1.36.3", "account", drain_seconds=60, ignored=("Swap",), patches="/patches"
    )
    made = pod.pod(asked)["spec"]
    commands = {container["name"]: container["command"] for container in (*made["initContainers"], *made["containers"])}
    assert commands[DRAIN.container][2:] == ["--timeout", "60"]
    assert commands[KUBEADM.container][-4:] == ["--ignore-preflight-errors", "Swap", "--patches", "/patches"]
    assert "--patches" not in str(pod.pod(replace(asked, patches="")))


def test_rights_of_an_upgrader_go_with_its_role() -> None:
    role = Object(encode_json({**pod.role("n"), "metadata": {"name": "upgrader-n", "uid": "12-34"}}))
    dependents = [body for _, body in pod.role_dependents(role)]
    for body in (*dependents, pod.changes("account", role, b"{}")):
        assert [reference["uid"] for reference in body["metadata"]["ownerReferences"]] == ["12-34"]
    assert "ownerReferences" not in pod.role("n")["metadata"]


@pytest.mark.demand("U68")
def test_steps_become_true_in_order() -> None:
    pod_ = upgrader({"components-copier": DONE, "containerd-upgrader": DONE, "cni-plugins-upgrader": RUNS})
    conditions = by_type(progress.conditions([], pod_))
    assert [type_ for type_, condition in conditions.items() if condition.status == "True"] == [
        "UpgraderPodCreated",
        "BinariesCopied",
        "ContainerdUpgraded",
    ]
    assert conditions["CNIPluginsUpgraded"].reason == "UpgradingCNIPlugins"
    assert conditions["KubeadmUpgraded"].reason == "Waiting"


def test_blocking_pods_are_reported_in_a_drain_only() -> None:
    before = [step.container for step in itertools.takewhile(lambda step: step is not DRAIN, STEPS)]
    for ended, message in ((before, "waiting for pods: web-1"), (before[:-1], "")):
        pod_ = upgrader(dict.fromkeys(ended, DONE))
        condition = by_type(progress.conditions([], pod_, "web-1"))[DRAIN.condition]
        assert ("waiting for pods" in condition.message) is bool(message)
        assert condition.message.startswith(message)


def test_last_words_of_a_container_are_reported() -> None:
    pod_ = upgrader({"components-copier": DONE, "containerd-upgrader": failed("disk full\n", 28)}, phase="Failed")
    condition = by_type(progress.conditions([], pod_))["ContainerdUpgraded"]
    assert (condition.status, condition.reason) == ("False", "UpgradingContainerdFailed")
    assert condition.message == "exit code 28: disk full"
    failure = progress.failure(pod_)
    assert failure is not None
    assert failure[0] is STEPS[1]


def written(pod_: Pod, at: str, before: list[Condition] | None = None) -> list[Condition]:
    """Conditions of a pod as they stand in the status: dated when they became true."""
    conditions = progress.conditions(before or [], pod_)
    return [
        condition if condition.last_transition_time else msgspec.structs.replace(condition, last_transition_time=at)
        for condition in conditions
    ]


def made_at(pod_: Pod, at: str) -> Pod:
    return msgspec.structs.replace(pod_, metadata=msgspec.structs.replace(pod_.metadata, creation_timestamp=at))


def test_node_took_as_long_as_its_pod() -> None:
    pod_ = made_at(upgrader({step.container: DONE for step in STEPS}), "2026-01-01T10:00:00Z")
    now = datetime(2026, 1, 1, 10, 3, 5, tzinfo=UTC)
    assert progress.seconds(written(pod_, "2026-01-01T10:03:00Z"), pod_, now) == 185
    assert progress.seconds(written(pod_, "2026-01-01T10:03:00Z"), None, now) is None


def test_pauses_between_attempts_do_not_count() -> None:
    first = upgrader({STEPS[0].container: DONE, STEPS[1].container: DONE, STEPS[2].container: failed()})
    done = frozenset(step.condition for step in STEPS[:2])
    second = made_at(upgrader({step.container: DONE for step in STEPS}, done=done), "2026-01-01T15:00:00Z")
    conditions = written(second, "2026-01-01T15:02:00Z", written(first, "2026-01-01T10:01:00Z"))
    assert progress.seconds(conditions, second, datetime(2026, 1, 1, 15, 3, tzinfo=UTC)) is None


def test_a_pod_that_failed_as_a_whole_says_why() -> None:
    pod_ = msgspec.structs.replace(
        upgrader({}),
        status=msgspec.structs.replace(upgrader({}).status, phase="Failed", reason="Evicted", message="low on memory"),
    )
    assert progress.failure(pod_) == (None, "Evicted: low on memory")


@pytest.mark.parametrize("reason", ["ContainerStatusUnknown", "Unknown"])
def test_pod_down_with_its_node_has_not_failed(reason: str) -> None:
    lost: Tree = {"terminated": {"exitCode": 137, "reason": reason}}
    pod_ = upgrader({"components-copier": DONE, "containerd-upgrader": lost}, phase="Failed")
    assert pod_.is_lost
    assert progress.failure(pod_) is None
    conditions = by_type(progress.conditions([], pod_))
    assert conditions["BinariesCopied"].status == "True"
    assert (conditions["ContainerdUpgraded"].status, conditions["ContainerdUpgraded"].reason) == (
        "False",
        "UpgradingContainerd",
    )


@pytest.mark.parametrize("reason", ["Terminated", "NodeShutdown"])
def test_pod_ended_in_a_shutdown_has_not_failed(reason: str) -> None:
    made = upgrader({"components-copier": failed(code=143)}, phase="Failed")
    pod_ = msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, reason=reason))
    assert pod_.is_lost
    assert progress.failure(pod_) is None
    assert progress.failure(made) is not None


def test_restarted_container_is_not_lost() -> None:
    lost: Tree = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
    assert not upgrader({"components-copier": lost}, phase="Pending").is_lost


def test_an_image_that_can_not_be_pulled_is_reported() -> None:
    waiting: Tree = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    assert progress.stuck(upgrader({"components-copier": waiting})) == "ImagePullBackOff: no such image"
    assert progress.stuck(upgrader({"components-copier": RUNS})) == ""


LONG = "x" * 3 * progress.LONGEST_MESSAGE


@pytest.mark.parametrize(
    "state",
    [
        failed(LONG),
        {"terminated": {"exitCode": 0, "message": LONG}},
        {"terminated": {"exitCode": 1, "reason": LONG, "message": LONG}},
        {"waiting": {"reason": "ImagePullBackOff", "message": LONG}},
        {"waiting": {"reason": LONG, "message": "why"}},
    ],
)
def test_message_of_a_container_fits_into_a_status(state: Tree) -> None:
    """One that did not could not be written, and nobody would hear of the node again."""
    pod_ = upgrader({"components-copier": state}, phase="Failed")
    condition = by_type(progress.conditions([], pod_))["BinariesCopied"]
    step, why = progress.failure(pod_) or (None, "")
    for text in (condition.message, condition.reason, why, progress.stuck(pod_)):
        assert len(text) <= 2.1 * progress.LONGEST_MESSAGE
    assert (step is STEPS[0]) is bool(state.get("terminated", {}).get("exitCode"))


def test_why_pod_failed_as_whole_fits_into_status() -> None:
    status = msgspec.structs.replace(upgrader({}).status, phase="Failed", reason="Evicted", message=LONG)
    _, why = progress.failure(msgspec.structs.replace(upgrader({}), status=status)) or (None, "")
    assert why.startswith("Evicted: x")
    assert len(why) <= progress.LONGEST_MESSAGE


def test_wait_of_container_stands_in_its_condition() -> None:
    waiting: Tree = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    condition = by_type(progress.conditions([], upgrader({"components-copier": waiting})))["BinariesCopied"]
    assert (condition.status, condition.reason, condition.message) == ("False", "ErrImagePull", "no such image")


def test_a_skipped_step_counts_as_done_and_says_why() -> None:
    conditions = by_type(progress.conditions([], upgrader({}, drains=False)))
    assert conditions["NodeDrained"].status == conditions["NodeUncordoned"].status == "True"
    assert conditions["NodeDrained"].reason == "NothingCanMove"


def test_drained_node_is_uncordoned_in_any_case() -> None:
    remaining = pod.remaining_steps({"BinariesCopied", "NodeDrained"}, drains=False)
    assert "uncordoner" in [step.container for step in remaining]


def test_files_are_copied_again_where_needed() -> None:
    all_but_last = {step.condition for step in STEPS[:-2]}
    assert [step.container for step in pod.remaining_steps(all_but_last, drains=True)] == ["uncordoner", "done"]
    assert pod.remaining_steps({STEPS[0].condition}, drains=True)[0].container == "components-copier"


def test_repeated_step_is_reported_as_running() -> None:
    first = progress.conditions([], upgrader({"components-copier": DONE, "containerd-upgrader": failed()}))
    again = progress.conditions(first, upgrader({"components-copier": RUNS}, done=progress.done(first)))
    copied = by_type(again)["BinariesCopied"]
    assert (copied.status, copied.reason) == ("False", "CopyingComponents")


def test_a_step_that_is_done_stays_so() -> None:
    """Somebody deleted the status's pod and made one with all steps: what a node has, it has."""
    first = progress.conditions([], upgrader({step.container: DONE for step in STEPS[:3]}))
    again = by_type(progress.conditions(first, upgrader({STEPS[0].container: DONE, STEPS[1].container: failed()})))
    assert again[STEPS[1].condition].status == "True"


def test_completed_pod_stays_reported() -> None:
    done = progress.conditions([], upgrader({step.container: DONE for step in STEPS}))
    assert by_type(progress.conditions(done, None))["UpgraderPodCreated"].status == "True"


@given(st.lists(st.sampled_from([DONE, RUNS, WAITS, failed()]), min_size=8, max_size=8), st.booleans())
def test_conditions_never_go_back(states: list[Tree], drains: bool) -> None:
    """A kubelet runs init containers in order: after the first that is not done, all wait."""
    broken = list(itertools.takewhile(lambda state: state is DONE, states))
    states_by_container = dict(
        zip((step.container for step in STEPS), [*broken, *states[len(broken) : len(broken) + 1]], strict=False)
    )
    first = progress.conditions([], upgrader(states_by_container, drains=drains))
    done = progress.done(first)
    after = progress.conditions(first, None)
    assert progress.done(after) == done
    again = (
        progress.conditions(after, upgrader({}, done=done, drains=drains))
        if not progress.are_all_done(after)
        else after
    )
    assert progress.done(again) >= done - {"BinariesCopied"}
