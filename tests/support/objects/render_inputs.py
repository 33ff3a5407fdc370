"""Clusters of every kind and release, to be rendered with some layers or others."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

import msgspec
import yaml
from msgspec.structs import replace

from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.clusters.design.layers import LAYERS, Layer
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.design.rendered import Rendered
from tests.support.objects.observed_clusters import GARDEN, RELEASES, example, scope

EVERYTHING: dict[str, Tree | list[Tree]] = {
    "controlPlaneConfiguration": {
        "count": 3,
        "labels": {"tier": "gold"},
        "taints": [{"key": "dedicated", "value": "control", "effect": "NoSchedule"}],
        "certSans": ["garden.example.com", "10.0.0.7"],
        "apiServerExtraArgs": {"audit-log-maxage": "60", "event-ttl": "2h"},
        "auditPolicyContent": "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n",
        "kubeletConfiguration": {"maxPods": 50},
        "machineHealthCheck": {"nodeStartupTimeout": "20m", "maxUnhealthy": "50%"},
        "upgradeRolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}},
    },
    "workerNodeGroupConfigurations": [
        {
            "name": "large",
            "count": 4,
            "kubernetesVersion": "1.34",
            "labels": {"size": "large", "a": "b"},
            "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoExecute"}],
            "kubeletConfiguration": {"maxPods": 200},
            "upgradeRolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1},
            },
        },
        {"name": "small", "count": 0, "machineHealthCheck": {"unhealthyMachineTimeout": "1m"}},
    ],
    "clusterNetwork": {
        "pods": {"cidrBlocks": ["10.1.0.0/16"]},
        "services": {"cidrBlocks": ["10.2.0.0/16"]},
        "nodes": {"cidrMaskSize": 25},
        "dns": {"resolvConf": {"path": "/etc/my-resolv.conf"}},
        "cniConfig": {"kindnetd": {}},
    },
    "machineHealthCheck": {"unhealthyMachineTimeout": "3m0s"},
}
"""Everything that can be asked for of docker."""

CASES: dict[str, tuple[str, Tree]] = {
    "docker": ("docker.yaml", {}),
    "everything": ("docker.yaml", EVERYTHING),
    "cilium": ("docker-cilium.yaml", {}),
}
"""By name: an example, and fields of its spec."""

DIGESTS = "digests"
"""Another case: Cilium, of Bundles that have digests of its images."""

MIRRORED = "mirrored"
_MIRRORED: tuple[str, Tree] = (
    "docker.yaml",
    {
        "proxyConfiguration": {"httpProxy": "proxy.example.com:3128", "httpsProxy": "proxy.example.com:3128"},
        "registryMirrorConfiguration": {"endpoint": "harbor.example.com"},
    },
)
"""Another case: a registry mirror and a proxy."""

OLD_GROUPS = "cgroup v1"
_OLD_GROUPS: tuple[str, Tree] = (
    "docker.yaml",
    {"controlPlaneConfiguration": {"count": 1, "kubeletConfiguration": {"failCgroupV1": False}}},
)
"""Another case: control plane machines with cgroup v1."""

_FURTHER = {MIRRORED: _MIRRORED, OLD_GROUPS: _OLD_GROUPS}


def render_input(
    case: str, *, version: str = "v0.26.0", layers: Sequence[Layer] = LAYERS, patches: str = ""
) -> RenderInput:
    """A case as a cluster of a release that consents to these patches."""
    manifest, spec = _FURTHER.get(case) or CASES["cilium" if case == DIGESTS else case]
    documents = example(manifest, **spec | {"eksaVersion": version})
    if patches:
        documents[0]["metadata"]["annotations"] = {metadata_keys.PATCHES_ANNOTATION: patches}
    key = GARDEN._replace(name=documents[0]["metadata"]["name"])
    result = scope(*documents, key=key, layers=layers).render_input
    assert result is not None
    return with_digests(result) if case == DIGESTS else result


def with_digests(value: RenderInput) -> RenderInput:
    """Of Bundles that know the agent of Cilium by its digest, and have something else for its operator."""
    components = {}
    for version, item in value.components.items():
        cilium = item.bundle.cilium
        assert cilium is not None
        assert cilium.cilium is not None
        assert cilium.operator is not None
        agent = replace(cilium.cilium, image_digest=f"sha256:{'ab' * 32}")
        operator = replace(cilium.operator, image_digest="latest")
        bundle = replace(item.bundle, cilium=replace(cilium, cilium=agent, operator=operator))
        components[version] = replace(item, bundle=bundle)
    return replace(value, components=components)


def documents(value: Rendered) -> list[Tree]:
    """All objects, as trees."""
    once = (value.machine_template, value.infrastructure, value.control_plane, value.cluster, value.health_check)
    groups = (
        object_
        for group in value.groups
        for object_ in (group.machine_template, group.config_template, group.deployment, group.health_check)
    )
    return [*(msgspec.to_builtins(object_) for object_ in (*once, *groups)), *(item.body for item in value.cni)]


def text(case: str, **how: object) -> str:
    """All objects of a case, for people."""
    return "".join(f"---\n{_yaml(tree)}" for tree in documents(rendered(render_input(case, **how))))  # type: ignore[arg-type]


def _yaml(tree: Tree) -> str:
    return yaml.dump(tree, Dumper=_WithoutAliases, sort_keys=True, width=120)


class _WithoutAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def difference(before: Sequence[Layer], after: Sequence[Layer], cases: Iterable[str] = CASES) -> str:
    """The changes that layers make in these cases, line by line; every hunk says of which object it is."""
    results = []
    for case in cases:
        pairs = zip(
            documents(rendered(render_input(case, layers=before))),
            documents(rendered(render_input(case, layers=after))),
            strict=True,
        )
        for item, other in pairs:
            lines = difflib.unified_diff(_yaml(item).splitlines(), _yaml(other).splitlines(), n=2, lineterm="")
            changed = [re.sub("^@@.*", "@@", line) for line in lines if not line.startswith(("---", "+++"))]
            if changed:
                results += [f"## {case}: {item['kind']} {item['metadata']['name']}", *changed, ""]
    return "\n".join(results)


RELEASED = RELEASES.versions
"""The releases of this build."""
