"""External etcd, for any provider that supports it."""

from __future__ import annotations

from espalier.api.capi.etcdadm import (
    CloudInitConfig,
    EtcdadmCluster,
    EtcdadmClusterSpec,
    EtcdadmConfigSpec,
    EtcdProxy,
    EtcdRegistryMirror,
    TemplateReference,
)
from espalier.api.kinds import KubeObject
from espalier.clusterapi import external_etcd
from espalier.clusters.design import registry_mirror
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.cluster import meta
from espalier.clusters.design.render.kubeadm import CIPHER_SUITES
from espalier.clusters.design.render.nodes import node_setup
from espalier.clusters.design.rendered import RenderedEtcd


def config(render_input: RenderInput, *, install_dir: str = "", format: str = "") -> EtcdadmConfigSpec:
    """The configuration of etcd machines; the last arguments are the provider's."""
    spec, distro = render_input.spec, render_input.of_control_plane.distro
    proxy, mirror = spec.proxy_configuration, spec.registry_mirror_configuration
    return EtcdadmConfigSpec(
        etcdadm_builtin=True,
        format=format,
        cipher_suites=CIPHER_SUITES,
        cloud_init_config=CloudInitConfig(
            version=distro.etcd_version, install_dir=install_dir, etcd_release_url=distro.etcd_archive
        ),
        proxy=EtcdProxy(
            http_proxy=proxy.http_proxy,
            https_proxy=proxy.https_proxy,
            no_proxy=node_setup.reached_directly(render_input, proxy),
        )
        if proxy is not None
        else None,
        registry_mirror=EtcdRegistryMirror(endpoint=registry_mirror.base(mirror), ca_cert=mirror.ca_cert_content)
        if mirror is not None
        else None,
    )


def etcd(render_input: RenderInput) -> RenderedEtcd | None:
    """The EtcdadmCluster and its machine template, for a cluster with external etcd."""
    asked, renderer = render_input.spec.external_etcd_configuration, render_input.provider.etcd
    if asked is None or renderer is None:
        return None
    template: KubeObject = renderer.machine_template(render_input, external_etcd.template(render_input.name))
    return RenderedEtcd(
        machine_template=template,
        cluster=EtcdadmCluster(
            metadata=meta(render_input, external_etcd.name(render_input.name)),
            spec=EtcdadmClusterSpec(
                replicas=asked.count,
                etcdadm_config_spec=renderer.config(render_input),
                infrastructure_template=TemplateReference(
                    api_version=template.api_version,
                    kind=template.kind,
                    name=template.metadata.name,
                    namespace=template.metadata.namespace,
                ),
            ),
        ),
    )
