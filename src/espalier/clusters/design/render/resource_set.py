"""ClusterResourceSets: EKS Anywhere's way to keep objects of a workload cluster in the management cluster.

They contain the objects that the manager applies itself (`Provider.workload`), byte by byte from the same rendering:
anybody who looks for them finds them, and the ClusterResourceSet of a cluster that comes from EKS Anywhere does not
apply older objects beside ours (decision 0093).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from espalier.api.capi.addons import (
    RECONCILE,
    SECRET_TYPE,
    ClusterResourceSet,
    ClusterResourceSetSpec,
    ResourceReference,
)
from espalier.api.capi.cluster import CLUSTER_NAME_LABEL
from espalier.api.core import SECRET, ConfigMap, Secret
from espalier.api.eksa import cluster as eksa
from espalier.api.kinds import KubeObject
from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.trees import json_trees, yaml_text
from espalier.clusters.design.provider import Extras, Name, RenderInput
from espalier.clusters.design.render.cluster import meta
from espalier.clusters.design.rendered import Manifest
from espalier.kube.objects import Object


class Part(NamedTuple):
    """A Secret or ConfigMap of a set."""

    resource: Resource
    suffix: str
    """The suffix of its name, after the cluster's name and a dash."""
    key: str
    """The field with the objects."""
    kinds: tuple[Resource, ...] = ()
    """The objects that it contains; none: all that no other part contains."""

    def name(self, cluster: str) -> Name:
        """Its name."""
        return Name(self.resource, f"{cluster}-{self.suffix}")


class ResourceSet(NamedTuple):
    """A ClusterResourceSet for each cluster of a provider."""

    suffix: str
    parts: tuple[Part, ...]

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The kinds of its objects."""
        return (*dict.fromkeys(part.resource for part in self.parts), ClusterResourceSet.resource)

    def names(self, cluster: str) -> Iterator[Name]:
        """The names of its objects."""
        yield from (part.name(cluster) for part in self.parts)
        yield Name(ClusterResourceSet.resource, f"{cluster}-{self.suffix}")

    def beside(self, extras: Extras, workload: Callable[[RenderInput], Iterable[Manifest]]) -> Extras:
        """A provider's extra objects, and after them those of this set, with the objects of the workload cluster."""

        def names(name: str, spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Name]:
            yield from extras.names(name, spec, children)
            yield from self.names(name)

        def render(render_input: RenderInput) -> Iterator[KubeObject]:
            yield from extras.render(render_input)
            yield from self.objects(render_input, workload(render_input))

        return Extras((*extras.kinds, *self.resources), names, render)

    def objects(self, render_input: RenderInput, manifests: Iterable[Manifest]) -> Iterator[KubeObject]:
        """The objects of a cluster, to which these manifests are applied."""
        held = list(manifests)
        elsewhere = {kind for part in self.parts for kind in part.kinds}
        for part in self.parts:
            bodies = [
                manifest.body
                for manifest in held
                if manifest.resource in part.kinds or not (part.kinds or manifest.resource in elsewhere)
            ]
            metadata = meta(render_input, part.name(render_input.name).name)
            if part.resource == SECRET:
                yield Secret(metadata=metadata, type=SECRET_TYPE, data={part.key: _yaml(bodies).encode()})
            else:
                yield ConfigMap(metadata=metadata, data={part.key: _cached_yaml(msgspec.json.encode(bodies))})
        references = [
            ResourceReference(piece.resource.kind, piece.name(render_input.name).name) for piece in self.parts
        ]
        selector = LabelSelector(match_labels={CLUSTER_NAME_LABEL: render_input.name})
        yield ClusterResourceSet(
            metadata=meta(render_input, f"{render_input.name}-{self.suffix}"),
            spec=ClusterResourceSetSpec(cluster_selector=selector, resources=references, strategy=RECONCILE),
        )


@lru_cache(maxsize=1024)
def _cached_yaml(bodies: bytes) -> str:
    """The objects as YAML. Cached, because each reconcile renders it, and writing YAML is slow. Credentials are not
    cached.
    """
    return _yaml(json_trees.decode(bodies, list[dict[str, Any]]))


def _yaml(bodies: Iterable[Tree]) -> str:
    return yaml_text.dump(*bodies)
