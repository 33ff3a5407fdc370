"""The messages between Cluster API and runtime hooks (`hooks.runtime.cluster.x-k8s.io/v1alpha1`).

A hook that refuses or fails answers 200 with `status: Failure`; any other code counts as no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from espalier.api.meta import Part, Tree

API_VERSION = "hooks.runtime.cluster.x-k8s.io/v1alpha1"

CAN_UPDATE_MACHINE, CAN_UPDATE_MACHINE_SET, UPDATE_MACHINE = "CanUpdateMachine", "CanUpdateMachineSet", "UpdateMachine"
HANDLERS: Mapping[str, str] = {
    CAN_UPDATE_MACHINE: "can-update-machine",
    CAN_UPDATE_MACHINE_SET: "can-update-machine-set",
    UPDATE_MACHINE: "update-machine",
}
"""Names of the handlers, by hook."""

DISCOVERY_PATH = f"/{API_VERSION}/discovery"
CALL_SECONDS = 10
"""The timeout of a call, as the discovery response tells Cluster API."""


class MachineObjects(Part):
    """A machine and its objects; metadata has only name, namespace, labels and annotations."""

    machine: Tree
    infrastructure_machine: Tree | None = None
    bootstrap_config: Tree | None = None


class SetObjects(Part):
    """A MachineSet with the templates that it refers to."""

    machine_set: Tree
    infrastructure_machine_template: Tree | None = None
    bootstrap_config_template: Tree | None = None


class CanUpdateMachineRequest(Part):
    """The request to upgrade a machine from `current` to `desired` in place."""

    current: MachineObjects
    desired: MachineObjects


class CanUpdateMachineSetRequest(Part):
    """The same for all machines of a MachineSet."""

    current: SetObjects
    desired: SetObjects


class UpdateMachineRequest(Part):
    """The request to start or report the upgrade of a machine to `desired`."""

    desired: MachineObjects


class Operation(Part):
    """One operation of a JSON patch (RFC 6902)."""

    op: str
    path: str
    value: object = msgspec.UNSET


class Progress(NamedTuple):
    """The progress of a machine; Cluster API asks again after `retry_after` seconds, 0 once it is done."""

    message: str
    retry_after: int = 0
    failed: bool = False


def path_of(hook: str) -> str:
    """The path of a hook's endpoint."""
    return f"/{API_VERSION}/{hook.lower()}/{HANDLERS[hook]}"


def discovery() -> bytes:
    """The response with all hooks. With their failure policy, Cluster API replaces nothing if a call fails."""
    handlers = [
        {
            "name": name,
            "requestHook": {"apiVersion": API_VERSION, "hook": hook},
            "timeoutSeconds": CALL_SECONDS,
            "failurePolicy": "Fail",
        }
        for hook, name in HANDLERS.items()
    ]
    return _answer("Discovery", "Success", {"handlers": handlers})


def accepted(hook: str, patches: Mapping[str, Sequence[Operation]]) -> bytes:
    """The response with patches, none of them empty, by the object's name in the request; all else can't be changed in
    place."""
    patch_fields: dict[str, object] = {
        f"{name}Patch": {"patchType": "JSONPatch", "patch": msgspec.json.encode(operations)}
        for name, operations in patches.items()
    }
    return _answer(hook, "Success", patch_fields)


def progress(report: Progress) -> bytes:
    """The response of UpdateMachine."""
    if report.failed:
        return failure(UPDATE_MACHINE, report.message)
    return _answer(UPDATE_MACHINE, "Success", {"message": report.message, "retryAfterSeconds": report.retry_after})


def failure(hook: str, message: str) -> bytes:
    """The response of a failed call: Cluster API does nothing, logs the message, and retries with a back-off."""
    return _answer(hook, "Failure", {"message": message})


def _answer(hook: str, status: str, fields: Mapping[str, object]) -> bytes:
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": f"{hook}Response", "status": status, **fields})
