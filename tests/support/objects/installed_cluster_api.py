"""The Deployment of Cluster API's manager, as clusterctl makes it."""

from __future__ import annotations

from espalier.api.core import DEPLOYMENT
from espalier.api.meta import Tree
from espalier.clusterapi import installed

LABELS = {installed.PROVIDER_LABEL: installed.CORE}


def deployment(image: str, namespace: str = installed.NAMESPACE) -> Tree:
    """With an image, of which the repository is left out."""
    containers = [{"name": installed.MANAGER, "image": f"registry.example/cluster-api{image}"}]
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": containers}}
    tree = DEPLOYMENT.body(installed.DEPLOYMENT_NAME, namespace)
    tree["metadata"]["labels"] = LABELS
    return tree | {"spec": {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}}
