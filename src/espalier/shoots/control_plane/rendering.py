"""The objects of a control plane, as trees."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.core import SERVICE
from espalier.api.gardener.shoot import Shoot
from espalier.api.meta import Tree
from espalier.shoots.control_plane.deployment import deployment, labels_of
from espalier.shoots.control_plane.programs import API_SERVER, API_SERVER_PORT, ControlPlaneInputs, program


@dataclass(frozen=True)
class ControlPlane:
    """Renders the control planes of a seed's shoots (`Renderer` of the gardenlet)."""

    etcd: str = ControlPlaneInputs.etcd
    issuer: str = ControlPlaneInputs.issuer

    def services(self, shoot: Shoot, namespace: str) -> list[Tree]:
        """The Services by which its parts reach each other."""
        port = {"name": "https", "port": API_SERVER_PORT, "targetPort": API_SERVER_PORT, "protocol": "TCP"}
        labels = labels_of(API_SERVER)
        return [
            {
                "apiVersion": SERVICE.api_version,
                "kind": SERVICE.kind,
                "metadata": {"name": API_SERVER, "namespace": namespace, "labels": labels},
                "spec": {"selector": labels, "ports": [port]},
            }
        ]

    def deployment(self, name: str, shoot: Shoot, namespace: str, replicas: int) -> Tree:
        """The Deployment of kube-apiserver, kube-controller-manager, kube-scheduler or machine-controller-manager.

        Raises `KeyError` for another name.
        """
        inputs = ControlPlaneInputs(namespace, self.etcd, self.issuer)
        return deployment(program(name, shoot, inputs), namespace, replicas)
