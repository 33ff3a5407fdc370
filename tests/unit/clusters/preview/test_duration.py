"""How long a plan says that things take."""

from __future__ import annotations

from msgspec.structs import replace

from espalier.api.capi.cluster import ContractReference
from espalier.api.capi.machine import Bootstrap, Machine, MachineSpec, MachineStatus
from espalier.api.eksa.vocabulary.upgrade_keys import UPGRADE_SECONDS
from espalier.api.meta import Condition, ObjectMeta
from espalier.clusterapi.machines.machine_objects import MachineObjects
from espalier.clusters.effects.duration import UNKNOWN_IN_PLACE, Duration, in_place, seconds_to_ready
from espalier.clusters.effects.machines import Fleet, Group, RemovedMachine
from tests.support.objects.observed_clusters import machine_objects

STAY = RemovedMachine("", ("version",))
GROUPS = (Group("", 3, upgraded=(STAY,) * 3), Group("a", 2, upgraded=(STAY,) * 2), Group("b", 1, upgraded=(STAY,)))


def fleet(*seconds: str) -> Fleet:
    """Machines that say how long their last upgrade took."""
    return Fleet([machine_objects(machine(second)) for second in seconds], {})


def machine(seconds: str) -> Machine:
    reference = ContractReference(api_group="infrastructure.cluster.x-k8s.io", kind="DockerMachine", name="a")
    spec = MachineSpec(cluster_name="garden", bootstrap=Bootstrap(), infrastructure_ref=reference)
    return Machine(metadata=ObjectMeta(annotations={UPGRADE_SECONDS: seconds}), spec=spec)


def test_nodes_go_in_sequence_and_groups_in_parallel() -> None:
    assert in_place(GROUPS, fleet("180", "60", "70")) == Duration((3 + 2) * 70.0, 70.0, 3)


def test_durations_without_measurements_are_assumed() -> None:
    assert in_place(GROUPS, fleet("soon")) == Duration(5 * UNKNOWN_IN_PLACE, UNKNOWN_IN_PLACE, 0)


def test_machines_that_are_replaced_have_no_part_in_it() -> None:
    assert in_place((Group("", 1, going=(RemovedMachine("garden-a", ("version",)),), coming=1),), fleet("60")) is None


def ready_machine(*, bootstrapped: str) -> MachineObjects:
    """A machine that was asked for at ten and is ready since five minutes later."""
    told = (("BootstrapConfigReady", bootstrapped), ("Ready", "2026-01-01T10:05:00Z"))
    conditions = [Condition(type_, "True", "Ready", last_transition_time=moment) for type_, moment in told if moment]
    metadata = ObjectMeta(creation_timestamp="2026-01-01T10:00:00Z")
    return machine_objects(replace(machine(""), metadata=metadata, status=MachineStatus(conditions=conditions)))


def test_waiting_worker_took_as_long_as_its_join() -> None:
    assert seconds_to_ready(ready_machine(bootstrapped="2026-01-01T10:04:20Z")) == 40
    assert seconds_to_ready(ready_machine(bootstrapped="")) == 300
    restored = ready_machine(bootstrapped="2026-01-01T12:00:00Z")
    assert seconds_to_ready(restored) == 300, "what was said anew later tells nothing"
