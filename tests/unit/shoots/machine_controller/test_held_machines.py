"""Machines that are left alone, and machines that have failed."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

from espalier.api.gardener.machines import Machine
from espalier.kube.objects import Object
from espalier.shoots.machine_controller import controller, plan


def test_machines_without_a_worker_are_left_alone() -> None:
    """It may have been deleted by hand: nothing says that they are no longer needed."""
    made = controller.MachineController.__new__(controller.MachineController)
    made._workers = cast(Any, SimpleNamespace(list=lambda _namespace: []))
    held = made._hold("shoot--dev--apple")
    assert held is not None
    assert held.reason == "WorkerMissing"


def test_a_failed_machine_is_deleted() -> None:
    failed = Object(b'{"kind":"Machine","metadata":{"name":"failed"}}')
    runs = Object(b'{"kind":"Machine","metadata":{"name":"runs"}}')
    machines = [SimpleNamespace(object=failed, phase=plan.FAILED), SimpleNamespace(object=runs, phase="Running")]
    machine_set = SimpleNamespace(spec=SimpleNamespace(replicas=1))
    view: Any = SimpleNamespace(machines=machines, set=machine_set, object=runs, available=1)
    action, _ = plan._set(view, random.Random(1))
    assert action == plan.DeleteObject(Machine.resource, failed)
