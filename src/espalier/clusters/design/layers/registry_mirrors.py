"""v0.26.0: registry mirrors are reached without the proxy, and etcd machines find their images in the mirror.

A mirror is inside the network, which a proxy leaves; a proxy may not reach it. On etcd machines the path of
`ociNamespaces` was missing, so that images were looked for at the top of the mirror, and a mirror without the registry
of EKS Distro was asked for its images.
"""

from __future__ import annotations

import semver
from msgspec.structs import replace

from espalier.api.eksa.cluster import ClusterSpec
from espalier.clusters.design.layers.layer import Layer
from espalier.clusters.design.layers.pieces import changed
from espalier.clusters.design.rendered import Rendered


def past_the_proxy(spec: ClusterSpec) -> ClusterSpec:
    """Add the mirror to the hosts that are reached without the proxy."""
    proxy, mirror = spec.proxy_configuration, spec.registry_mirror_configuration
    host = mirror.endpoint.strip("[]") if mirror is not None else ""
    if proxy is None or not host or host in proxy.no_proxy:
        return spec
    return changed(spec, proxy_configuration=changed(proxy, no_proxy=[*proxy.no_proxy, host]))


def with_etcd_mirror(rendered: Rendered) -> Rendered:
    """Set the mirror of etcd machines."""
    etcd = rendered.etcd
    if etcd is None:
        return rendered
    spec = etcd.cluster.spec
    config = changed(spec.etcdadm_config_spec, registry_mirror=rendered.etcd_mirror)
    return replace(
        rendered, etcd=replace(etcd, cluster=changed(etcd.cluster, spec=changed(spec, etcdadm_config_spec=config)))
    )


LAYER = Layer(
    name="registry-mirrors",
    since=semver.Version(0, 26, 0),
    why="Registry mirrors are reached without the proxy, and etcd machines use the path of ociNamespaces; in clusters "
    "with a mirror and a proxy this replaces all machines, with a mirror those of external etcd.",
    functions=(with_etcd_mirror,),
    defaults=(past_the_proxy,),
)
