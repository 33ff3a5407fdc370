"""Validating webhooks of upgrades: they must be in the system namespace, and refer to Machines and their owner.

The controllers check references too, since a webhook may be down. No controller reads upgrades in other namespaces:
only the webhook can reject those.
"""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.text.violations import Violation
from espalier.kube.objects import Object
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse, AdmissionWebhook, Handler
from espalier.runtime.servers.webhooks import Webhooks
from espalier.upgrades import names

KINDS = (ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade)
PATHS = {kind: f"/validate-anywhere-eks-amazonaws-com-v1alpha1-{kind.resource.kind.lower()}" for kind in KINDS}
WEBHOOKS = tuple(
    AdmissionWebhook("validate", kind.resource, path, ("CREATE",), "Ignore") for kind, path in PATHS.items()
)


def serve(webhooks: Webhooks) -> None:
    """Serve the handlers at their paths."""
    for kind, path in PATHS.items():
        webhooks.handle(path, _handler(kind))


def _handler(kind: type[ControlPlaneUpgrade] | type[MachineDeploymentUpgrade] | type[NodeUpgrade]) -> Handler:
    def review(request: AdmissionRequest) -> AdmissionResponse:
        if request.object is None:
            return AdmissionResponse()
        violations = [*_namespace(request.object), *_references(request.object.decode(kind))]
        return AdmissionResponse.refuse(request.object, violations) if violations else AdmissionResponse()

    return review


def _namespace(object_: Object) -> Iterator[Violation]:
    if object_.namespace != SYSTEM_NAMESPACE:
        message = "upgrades in other namespaces are not carried out"
        yield Violation("metadata.namespace", object_.namespace, SYSTEM_NAMESPACE, message)


def _references(upgrade: ControlPlaneUpgrade | MachineDeploymentUpgrade | NodeUpgrade) -> Iterator[Violation]:
    if isinstance(upgrade, NodeUpgrade):
        yield from names.not_a_machine("spec.machine", upgrade.spec.machine)
        return
    yield from names.not_an_owner(upgrade)
    for index, machine in enumerate(upgrade.spec.machines_require_upgrade):
        yield from names.not_a_machine(f"spec.machinesRequireUpgrade[{index}]", machine)
