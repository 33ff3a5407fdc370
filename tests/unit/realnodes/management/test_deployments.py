"""Cluster API's managers as Deployments: what refers to what."""

from __future__ import annotations

from espalier.api.meta import Tree
from espalier.cli.management.components.component_versions import COMPONENTS
from espalier.realnodes.management.cluster_api import MANAGERS
from espalier.realnodes.management.deployments import CERTIFICATES, deployed

IMAGES = {manager.name: f"example.com/{manager.name}:v1" for manager in MANAGERS}
DOCUMENTS: dict[str, list[Tree]] = {
    manager.name: [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things{number}.example.com", "labels": {"its": "own"}},
            "spec": {"group": "example.com"},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "manager-role"},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "validating-webhook-configuration"},
            "webhooks": [
                {
                    "name": "things",
                    "clientConfig": {"service": {"name": "webhook-service", "namespace": "system", "path": "/things"}},
                }
            ],
        },
    ]
    for number, manager in enumerate(MANAGERS)
}


def objects() -> dict[tuple[str, str, str], Tree]:
    trees = deployed(DOCUMENTS, IMAGES)
    by_place = {(tree["kind"], tree["metadata"].get("namespace", ""), tree["metadata"]["name"]): tree for tree in trees}
    assert len(by_place) == len(trees)
    return by_place


def test_deployments_have_names_that_tools_look_for() -> None:
    results = {(namespace, name) for kind, namespace, name in objects() if kind == "Deployment"}
    labelled = [part for part in COMPONENTS if part.is_required and part.label]
    assert results == {(part.namespace, part.deployment) for part in labelled}
    for part in labelled:
        deployment = objects()["Deployment", part.namespace, part.deployment]
        assert deployment["metadata"]["labels"]["cluster.x-k8s.io/provider"] == part.label


def test_webhooks_lead_to_pods_with_certificates() -> None:
    by_place = objects()
    configurations = [tree for (kind, _, _), tree in by_place.items() if kind == "ValidatingWebhookConfiguration"]
    definitions = [tree for (kind, _, _), tree in by_place.items() if kind == "CustomResourceDefinition"]
    configs = [tree["webhooks"][0]["clientConfig"] for tree in configurations]
    configs += [tree["spec"]["conversion"]["webhook"]["clientConfig"] for tree in definitions]
    assert len(configs) == 2 * len(MANAGERS)
    for config in configs:
        name, namespace = config["service"]["name"], config["service"]["namespace"]
        service = by_place["Service", namespace, name]["spec"]
        secret = by_place["Secret", namespace, f"{name}-cert"]
        assert (secret["type"], "data" in secret) == ("kubernetes.io/tls", False)
        (deployment,) = [
            tree["spec"]["template"]
            for (kind, other, _), tree in by_place.items()
            if kind == "Deployment" and other == namespace
        ]
        assert service["selector"].items() <= deployment["metadata"]["labels"].items()
        container = deployment["spec"]["containers"][0]
        assert service["ports"][0]["targetPort"] == container["ports"][0]["containerPort"]
        assert deployment["spec"]["volumes"][0]["secret"]["secretName"] == secret["metadata"]["name"]
        assert f"--webhook-cert-dir={CERTIFICATES}" in container["args"]


def test_rights_of_a_manager_are_those_it_ships() -> None:
    by_place = objects()
    roles = {name: tree for (kind, _, name), tree in by_place.items() if kind == "ClusterRole"}
    bindings = [tree for (kind, _, _), tree in by_place.items() if kind == "ClusterRoleBinding"]
    assert len(bindings) == len(roles) == len(MANAGERS)
    for binding in bindings:
        assert roles[binding["roleRef"]["name"]]["rules"] == DOCUMENTS[MANAGERS[0].name][1]["rules"]
        (subject,) = binding["subjects"]
        assert ("ServiceAccount", subject["namespace"], subject["name"]) in by_place


def test_definitions_keep_labels_and_get_contracts() -> None:
    definition = objects()["CustomResourceDefinition", "", "things0.example.com"]
    assert definition["metadata"]["labels"].items() >= {"its": "own", "cluster.x-k8s.io/v1beta2": "v1beta2"}.items()
    assert "conversion" not in DOCUMENTS[MANAGERS[0].name][0]["spec"]
