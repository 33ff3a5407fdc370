"""Objects of any provider's clusters: files with passwords, and AWS IAM."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.identity_providers import AWSIamConfig
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.design import registry_mirror
from espalier.clusters.design.cluster_objects.machine_groups import ETCD, machine_groups
from espalier.clusters.design.provider import Dependency, Extras, Name, Provider, RenderInput, bottlerocket_groups
from espalier.clusters.design.render.api_server import authenticator
from espalier.clusters.design.render.nodes import node_setup
from espalier.clusters.design.rendered import Manifest
from espalier.clusters.design.secrets import registry_credentials
from espalier.kube.objects import Object

_MIRROR = "spec.registryMirrorConfiguration"


def with_shared_parts(provider: Provider) -> Provider:
    """The provider, with these objects for its clusters."""
    links, extras = provider.links, provider.extras

    def depend(cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Dependency]:
        yield from links.depend(cluster, children)
        mirror = cluster.spec.registry_mirror_configuration
        if mirror is None:
            return
        place, lack, fields = registry_mirror.base(mirror), registry_credentials.lack, registry_credentials.FIELDS
        if node_setup.asks_for_password(cluster.spec):
            variables = tuple(registry_credentials.VARIABLES.values())
            field = f"{_MIRROR}.authenticate"
            yield Dependency(SECRET, node_setup.CREDENTIALS, field, place, lack, variables=variables, fields=fields)
        elif bottlerocket_groups(provider, cluster.spec, children):
            # EKS Anywhere's build of Cluster API gives these machines the Secret, whether or not that was asked for.
            yield Dependency(SECRET, node_setup.CREDENTIALS, _MIRROR, place, lack, optional=True, fields=fields)

    def names(name: str, spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Name]:
        yield from extras.names(name, spec, children)
        if node_setup.needs_secret(spec) and has_files(spec, children):
            yield Name(SECRET, node_setup.secret_name(name))
        if any(reference.kind == AWSIamConfig.resource.kind for reference in spec.identity_provider_refs):
            yield Name(SECRET, authenticator.secret_name(name))
            yield Name(SECRET, authenticator.kubeconfig_name(name))

    def has_files(spec: eksa.ClusterSpec, children: Sequence[Object]) -> bool:
        """True if machines have such files; with Bottlerocket they have settings instead."""
        by_settings = bottlerocket_groups(provider, spec, children)
        return any(group.role != ETCD and group.field not in by_settings for group in machine_groups(spec))

    def render(render_input: RenderInput) -> Iterable[KubeObject]:
        yield from extras.render(render_input)
        if node_setup.needs_secret(render_input.spec) and has_files(render_input.spec, render_input.children):
            yield node_setup.secret(render_input)
        if authenticator.is_asked_for(render_input):
            yield authenticator.secret(render_input)
            yield authenticator.kubeconfig_secret(render_input)

    def workload(render_input: RenderInput) -> Iterable[Manifest]:
        yield from provider.workload(render_input)
        yield from authenticator.workload(render_input)

    def environment_secrets(environment: Mapping[str, str], manifest: Sequence[Tree]) -> Iterator[Tree]:
        yield from provider.environment_secrets(environment, manifest)
        yield from registry_credentials.secrets(environment, manifest)

    return dataclasses.replace(
        provider,
        environment_secrets=environment_secrets,
        links=msgspec.structs.replace(
            links,
            data=tuple(dict.fromkeys((*links.data, SECRET))),
            depend=depend,
            carriers=tuple(dict.fromkeys((*links.carriers, SECRET))),
        ),
        extras=Extras(tuple(dict.fromkeys((*extras.kinds, SECRET))), names, render),
        workload=workload,
    )
