"""The Secret in which Cluster API hands out a kubeconfig."""

from __future__ import annotations

import base64
import json

from espalier.api.resource import Key
from espalier.clusterapi import kubeconfig
from espalier.kube.objects import Object


def secret(name: str, cluster: str, data: dict[str, str] | None = None) -> Object:
    metadata = {"name": name, "namespace": "eksa-system", "labels": {"cluster.x-k8s.io/cluster-name": cluster}}
    return Object(json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data or {}}).encode())


def test_kubeconfig_of_cluster_has_its_name_and_label() -> None:
    assert kubeconfig.secret_key(Key("eksa-system", "garden")) == Key("eksa-system", "garden-kubeconfig")
    assert kubeconfig.cluster_of(secret("garden-kubeconfig", "garden")) == "garden"
    assert kubeconfig.cluster_of(secret("garden-ca", "garden")) is None
    assert kubeconfig.cluster_of(secret("garden-kubeconfig", "orchard")) is None


def test_a_secret_without_content_is_not_ready() -> None:
    assert kubeconfig.content(secret("garden-kubeconfig", "garden")) is None
    encoded = base64.b64encode(b"apiVersion: v1").decode()
    assert kubeconfig.content(secret("garden-kubeconfig", "garden", {"value": encoded})) == b"apiVersion: v1"
