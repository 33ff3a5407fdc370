"""Machines that are left alone, machines that have failed, and machines that are deleted with their nodes."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.gardener.machines import Machine
from espalier.kube.errors import KubeError, NotFound, Unreachable
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


@pytest.mark.parametrize("error", [None, NotFound.of("no such node"), Unreachable("connection refused", sent=False)])
async def test_a_node_goes_with_its_machine(error: KubeError | None) -> None:
    """Nobody else deletes it: it would look ready for ever. A shoot that does not answer holds up no machine."""
    done: list[str] = []

    class Shoot:
        async def delete(self, _resource: object, name: str) -> None:
            done.append(f"node {name}")
            if error is not None:
                raise error

    class Seed:
        async def remove_finalizer(self, *_: object) -> None:
            done.append("finalizer")

    class Cloud:
        async def delete(self, machine: Any) -> None:
            done.append(f"machine {machine}")

    made: Any = controller.MachineController.__new__(controller.MachineController)
    made._shoot = Shoot()
    live = Object(b'{"kind":"Machine","metadata":{"name":"m-1","labels":{"node":"n-1"}}}')
    terminated = plan.Terminate(cast(Any, SimpleNamespace(object=live, virtual="vm-1")))
    await made._provide(terminated, Cloud(), Seed(), [])
    assert done == ["machine vm-1", "node n-1", "finalizer"]
