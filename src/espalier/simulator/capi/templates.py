"""Which fields of a machine template update machines in place, and which require new machines."""

from __future__ import annotations

import hashlib

import msgspec

from espalier.api.capi.machine import MachineDeployment, MachineSet, MachineTemplate
from espalier.api.meta import Tree
from espalier.clusterapi.machine_change import of_machine_template, reasons_to_replace

IN_PLACE = ("deletion", "minReadySeconds", "readinessGates", "taints")
"""Fields of a machine's spec that are updated without a new machine (Cluster API's rule)."""


def template_hash(template: MachineTemplate) -> str:
    """A hash of the fields whose change requires new machines."""
    spec: Tree = msgspec.to_builtins(template.spec)
    lasting = {name: value for name, value in spec.items() if name not in ("clusterName", *IN_PLACE)}
    return hashlib.sha256(msgspec.json.encode(lasting, order="sorted")).hexdigest()[:10]


def is_current(set_: MachineSet, deployment: MachineDeployment) -> bool:
    """True if the set has the deployment's template."""
    current, desired = of_machine_template(set_.spec.template), of_machine_template(deployment.spec.template)
    return not reasons_to_replace(current, desired)


def propagated(template: MachineTemplate) -> Tree:
    """The fields that are updated in place: labels, annotations, deletion timeouts and the like."""
    spec = msgspec.to_builtins(template.spec)
    return {
        "metadata": {
            "labels": dict(template.metadata.labels),
            "annotations": dict(template.metadata.annotations),
        },
        "spec": {name: spec[name] for name in IN_PLACE if name in spec},
    }
