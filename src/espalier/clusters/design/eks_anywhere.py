"""The programs of EKS Anywhere in a management cluster."""

from __future__ import annotations

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.kube.objects import Object

CONTROLLER = Key(SYSTEM_NAMESPACE, "eksa-controller-manager")
"""The Deployment of its controller."""
WEBHOOKS = ("eksa-mutating-webhook-configuration", "eksa-validating-webhook-configuration")
"""The names of the configurations of its webhooks."""


def replicas(controller: Object) -> int:
    """The replicas that the Deployment is to have, or still has."""
    tree = controller.tree
    wanted, present = (tree.get("spec") or {}).get("replicas", 1), (tree.get("status") or {}).get("replicas", 0)
    return max(wanted if isinstance(wanted, int) else 1, present if isinstance(present, int) else 0)
