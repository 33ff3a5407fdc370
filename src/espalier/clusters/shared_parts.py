"""Objects that clusters of every provider may have: files with passwords, and AWS IAM."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.identity_providers import AWSIamConfig
from espalier.api.kinds import KubeObject
from espalier.clusters import registry_mirror
from espalier.clusters.provider import Dependency, Extras, Name, Provider
from espalier.clusters.render import authenticator, node_setup
from espalier.clusters.render_input import Design
from espalier.clusters.rendered import Manifest
from espalier.kube.objects import Object


def with_shared_parts(provider: Provider) -> Provider:
    """A provider whose clusters can have them."""
    links, extras = provider.links, provider.extras

    def depend(cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Dependency]:
        yield from links.depend(cluster, children)
        mirror = cluster.spec.registry_mirror_configuration
        if mirror is not None and node_setup.asks_for_password(cluster.spec):
            field = "spec.registryMirrorConfiguration.authenticate"
            yield Dependency(SECRET, node_setup.CREDENTIALS, field, registry_mirror.base(mirror))

    def names(name: str, spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Name]:
        yield from extras.names(name, spec, children)
        if node_setup.needs_secret(spec):
            yield Name(SECRET, node_setup.secret_name(name))
        if any(one.kind == AWSIamConfig.resource.kind for one in spec.identity_provider_refs):
            yield Name(SECRET, authenticator.secret_name(name))

    def render(design: Design) -> Iterable[KubeObject]:
        yield from extras.render(design)
        if node_setup.needs_secret(design.spec):
            yield node_setup.secret(design)
        if authenticator.is_asked_for(design):
            yield authenticator.secret(design)

    def workload(design: Design) -> Iterable[Manifest]:
        yield from provider.workload(design)
        yield from authenticator.workload(design)

    return dataclasses.replace(
        provider,
        links=msgspec.structs.replace(
            links,
            data=tuple(dict.fromkeys((*links.data, SECRET))),
            depend=depend,
            carriers=tuple(dict.fromkeys((*links.carriers, SECRET))),
        ),
        extras=Extras(tuple(dict.fromkeys((*extras.kinds, SECRET))), names, render),
        workload=workload,
    )
