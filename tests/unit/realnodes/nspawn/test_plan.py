from dataclasses import replace

import pytest

from espalier.realnodes.nspawn.plan import Bootstrap, MachineStep, ObservedNode, next_step

ON = ObservedNode(is_written_down=True, is_prepared=True, is_supervised=True, has_processes=True, has_started=True)


@pytest.mark.parametrize(
    ("observed", "step"),
    [
        (ObservedNode(), MachineStep.WRITE_DOWN),
        (ObservedNode(is_written_down=True), MachineStep.PREPARE),
        (ObservedNode(is_written_down=True, is_prepared=True), MachineStep.SWITCH_ON),
        (ObservedNode(is_written_down=True, is_prepared=True, has_processes=True), MachineStep.CLEAR),
        (replace(ON, has_started=False), MachineStep.AWAIT_START),
        (ON, MachineStep.AWAIT_BOOTSTRAP),
        (replace(ON, bootstrap=Bootstrap.SUCCEEDED), MachineStep.PROVISION),
        (replace(ON, bootstrap=Bootstrap.FAILED), MachineStep.SAY_FAILED),
    ],
)
def test_a_node_is_brought_up_one_step_after_the_other(observed: ObservedNode, step: MachineStep) -> None:
    assert next_step(observed) is step


def test_used_node_is_switched_on_again() -> None:
    assert next_step(ObservedNode(is_written_down=True, is_provisioned=True)) is MachineStep.PREPARE


def test_used_node_need_not_bootstrap_after_power_on() -> None:
    assert next_step(replace(ON, is_provisioned=True, bootstrap=Bootstrap.FAILED)) is MachineStep.PROVISION


def test_broken_node_stays_off() -> None:
    off = ObservedNode(is_written_down=True, is_prepared=True, is_provisioned=True, is_crashed=True)
    assert next_step(off) is MachineStep.STAY_OFF
