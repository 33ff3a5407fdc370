"""The infrastructure provider Docker."""

from espalier.clusters.design.provider import EtcdRenderer, Links, Provider
from espalier.providers.docker import render, rules
from espalier.providers.docker.cluster_api import INFRASTRUCTURE
from espalier.providers.docker.kinds import KINDS, DockerDatacenterConfig

DOCKER = Provider(
    links=Links(DockerDatacenterConfig.resource, needed=False),
    infrastructure=INFRASTRUCTURE,
    kinds=KINDS,
    render=render,
    rules=rules,
    etcd=EtcdRenderer(render.etcd_config, render.etcd_machine_template),
    optional_images=("haproxy.image", "eksD.kindNode"),
    settings=render.settings,
    has_kindnetd=True,
    tested_with="simulated machines; systemd-nspawn containers as real nodes, in place of Docker's",
)
