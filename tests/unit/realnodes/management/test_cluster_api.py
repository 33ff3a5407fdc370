"""The objects of Cluster API's managers, as they are installed on a management cluster."""

from __future__ import annotations

import base64
import copy
from pathlib import Path

import pytest
import yaml

from espalier.api.meta import Tree
from espalier.realnodes.management.cluster_api import MANAGERS, Manager, documents_of, installable

CORE = MANAGERS[0]
URL = "https://127.0.0.1:9443"
AUTHORITY = b"-----BEGIN CERTIFICATE-----\n"
BUNDLE = base64.b64encode(AUTHORITY).decode()

DEFINITION: Tree = {
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "machines.cluster.x-k8s.io", "labels": {"kept": "yes"}},
    "spec": {"group": "cluster.x-k8s.io"},
}
WEBHOOKS: Tree = {
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "validating-webhook-configuration"},
    "webhooks": [
        {
            "name": "validation.machine.cluster.x-k8s.io",
            "failurePolicy": "Fail",
            "clientConfig": {"service": {"name": "webhook-service", "path": "/validate-machine"}},
        }
    ],
}
ROLE: Tree = {"kind": "ClusterRole", "metadata": {"name": "manager-role"}, "rules": [{"verbs": ["get"]}]}


def installed(document: Tree, manager: Manager = CORE) -> Tree:
    before = copy.deepcopy(document)
    tree = installable(document, manager, URL, AUTHORITY)
    assert document == before, "what was read is left as it is"
    return tree


def test_definitions_have_contracts_and_conversion() -> None:
    tree = installed(DEFINITION)
    assert tree["metadata"]["labels"] == {
        "kept": "yes",
        "cluster.x-k8s.io/v1beta1": "v1beta1",
        "cluster.x-k8s.io/v1beta2": "v1beta2",
    }
    conversion = tree["spec"]["conversion"]
    assert conversion["strategy"] == "Webhook"
    assert conversion["webhook"]["clientConfig"] == {"url": f"{URL}/convert", "caBundle": BUNDLE}


def test_webhooks_are_called_by_url() -> None:
    tree = installed(WEBHOOKS)
    (webhook,) = tree["webhooks"]
    assert webhook["clientConfig"] == {"url": f"{URL}/validate-machine", "caBundle": BUNDLE}
    assert webhook["failurePolicy"] == "Fail"


def test_managers_do_not_share_names() -> None:
    for document in (WEBHOOKS, ROLE):
        names = {installed(document, manager)["metadata"]["name"] for manager in MANAGERS}
        assert len(names) == len(MANAGERS)


@pytest.mark.parametrize("config", [CORE.config, CORE.later_config])
def test_parts_for_another_installation_are_left_out(config: str, tmp_path: Path) -> None:
    service: Tree = {"kind": "Service", "metadata": {"name": "webhook-service"}}
    for place, trees in (
        ("crd/bases/machines.yaml", [DEFINITION]),
        ("rbac/role.yaml", [ROLE]),
        ("webhook/manifests.yaml", [service, WEBHOOKS]),
    ):
        file = tmp_path / config / place
        file.parent.mkdir(parents=True)
        file.write_text(yaml.safe_dump_all(trees))
    kinds = [tree["kind"] for tree in documents_of(tmp_path, CORE)]
    assert kinds == ["CustomResourceDefinition", "ClusterRole", "ValidatingWebhookConfiguration"]


def test_a_manager_is_told_the_gates_that_it_has() -> None:
    asked = {"RuntimeSDK": True, "MachinePool": False, "ReconcilerRateLimiting": False}
    gates = {manager.name: manager.known(asked) for manager in MANAGERS}
    assert gates == {
        "cluster-api-core": asked,
        "cluster-api-kubeadm-bootstrap": {"MachinePool": False, "ReconcilerRateLimiting": False},
        "cluster-api-kubeadm-control-plane": {"ReconcilerRateLimiting": False},
    }


def test_manager_of_a_provider_has_its_own_manifests(tmp_path: Path) -> None:
    manager = Manager("vines", "config", crds="default/crd/bases", webhooks="vines/webhook")
    files = {
        "default/crd/bases/vines.yaml": DEFINITION,
        "rbac/role.yaml": ROLE,
        "vines/webhook/manifests.yaml": WEBHOOKS,
    }
    for place, tree in files.items():
        file = tmp_path / manager.config / place
        file.parent.mkdir(parents=True)
        file.write_text(yaml.safe_dump(tree))
    kinds = [tree["kind"] for tree in documents_of(tmp_path, manager)]
    assert kinds == ["CustomResourceDefinition", "ClusterRole", "ValidatingWebhookConfiguration"]
