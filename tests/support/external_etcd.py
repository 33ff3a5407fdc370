"""Docker with etcd elsewhere: the control planes of simulated machines under the real Cluster API have no members."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from espalier.api.capi.kubeadm import Etcd, ExternalEtcd, KubeadmConfigSpec
from espalier.api.eksa.workers import WorkerNodeGroupConfiguration
from espalier.api.kinds import KubeObject
from espalier.clusters.provider import Providers
from espalier.clusters.render_input import Components, Design
from espalier.providers.docker import render
from espalier.providers.docker.provider import DOCKER


class ExternalEtcdRenderer:
    """Docker, with etcd elsewhere."""

    def infrastructure_cluster(self, design: Design) -> KubeObject:
        return render.infrastructure_cluster(design)

    def control_plane_config(self, design: Design) -> KubeadmConfigSpec:
        config = render.control_plane_config(design)
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

    def worker_config(self, design: Design, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
        return render.worker_config(design, group)

    def machine_template(
        self, design: Design, components: Components, name: str, group: WorkerNodeGroupConfiguration | None
    ) -> KubeObject:
        return render.machine_template(design, components, name, group)


EXTERNAL_ETCD: Providers = {DOCKER.links.datacenter.kind: replace(DOCKER, render=ExternalEtcdRenderer())}
