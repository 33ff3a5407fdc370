"""Providers with etcd elsewhere: control planes of simulated machines under the real Cluster API have no members."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from espalier.api.capi.kubeadm import Etcd, ExternalEtcd, KubeadmConfigSpec
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.kinds import KubeObject
from espalier.clusters.design.provider import Components, Provider, Providers, Renderer, RenderInput
from espalier.providers.docker.provider import DOCKER


@dataclass(frozen=True)
class ExternalEtcdRenderer:
    """A provider's, with etcd elsewhere."""

    own: Renderer

    def infrastructure_cluster(self, render_input: RenderInput) -> KubeObject:
        return self.own.infrastructure_cluster(render_input)

    def control_plane_config(self, render_input: RenderInput) -> KubeadmConfigSpec:
        config = self.own.control_plane_config(render_input)
        assert config.cluster_configuration is not None
        folder = "/etc/kubernetes/pki"
        external = ExternalEtcd(
            endpoints=["https://127.0.0.1:2379"],
            ca_file=f"{folder}/etcd/ca.crt",
            cert_file=f"{folder}/apiserver-etcd-client.crt",
            key_file=f"{folder}/apiserver-etcd-client.key",
        )
        configuration = msgspec.structs.replace(config.cluster_configuration, etcd=Etcd(external=external))
        return msgspec.structs.replace(config, cluster_configuration=configuration)

    def worker_config(self, render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
        return self.own.worker_config(render_input, group)

    def machine_template(
        self, render_input: RenderInput, components: Components, name: str, group: WorkerNodeGroupConfiguration | None
    ) -> KubeObject:
        return self.own.machine_template(render_input, components, name, group)


def with_external_etcd(provider: Provider) -> Providers:
    """The provider alone, with etcd elsewhere."""
    return {provider.links.datacenter.kind: replace(provider, render=ExternalEtcdRenderer(provider.render))}


EXTERNAL_ETCD = with_external_etcd(DOCKER)
