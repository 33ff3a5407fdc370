"""Clusters that a layer is not for, and what is right already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.cluster import ClusterSpec
from espalier.clusters.design.layers import LAYERS, cgroup_v1, registry_mirrors
from espalier.clusters.design.render.layered import base
from espalier.clusters.design.rendered import Rendered
from tests.support.objects.render_inputs import MIRRORED, OLD_GROUPS, documents, render_input


def spec_of(case: str, **edits: Any) -> ClusterSpec:
    return msgspec.structs.replace(render_input(case, layers=LAYERS[:1]).spec, **edits)


def test_a_mirror_that_avoids_the_proxy_is_added_once() -> None:
    spec = registry_mirrors.past_the_proxy(spec_of(MIRRORED))
    assert spec.proxy_configuration is not None
    assert spec.proxy_configuration.no_proxy == ["harbor.example.com"]
    assert registry_mirrors.past_the_proxy(spec) is spec


def test_ipv6_avoids_the_proxy_without_brackets() -> None:
    mirror = spec_of(MIRRORED).registry_mirror_configuration
    assert mirror is not None
    spec = spec_of(MIRRORED, registry_mirror_configuration=msgspec.structs.replace(mirror, endpoint="[fd00::1]"))
    proxy = registry_mirrors.past_the_proxy(spec).proxy_configuration
    assert proxy is not None
    assert proxy.no_proxy == ["fd00::1"]


@pytest.mark.parametrize("absent", ["proxy_configuration", "registry_mirror_configuration"])
def test_without_mirror_or_proxy_nothing_is_added(absent: str) -> None:
    spec = spec_of(MIRRORED, **{absent: None})
    assert registry_mirrors.past_the_proxy(spec) is spec


def of(case: str, change: Callable[[str], str] = str) -> Rendered:
    """A case before any layer; `change` edits its kubelets' files."""
    rendered = base(render_input(case, layers=LAYERS[:1]))
    for file in rendered.control_plane.spec.kubeadm_config_spec.files:
        file.content = change(file.content or "")
    return rendered


def errors_ignored(rendered: Rendered) -> list[str]:
    init = rendered.control_plane.spec.kubeadm_config_spec.init_configuration
    node = init.node_registration if init is not None else None
    return node.ignore_preflight_errors if node is not None else []


def test_the_check_of_cgroups_is_ignored_once() -> None:
    once = cgroup_v1.with_cgroup_v1(of(OLD_GROUPS))
    assert errors_ignored(once).count(cgroup_v1.CHECK) == 1
    assert documents(cgroup_v1.with_cgroup_v1(once)) == documents(once)


def test_kubelets_that_refuse_cgroup_v1_keep_the_check() -> None:
    refuses = of(OLD_GROUPS, lambda text: text.replace('"failCgroupV1": false', '"failCgroupV1": true'))
    assert cgroup_v1.CHECK not in errors_ignored(cgroup_v1.with_cgroup_v1(refuses))


def test_machines_of_earlier_versions_keep_the_check() -> None:
    """Their kubeadm warns; another list would replace all of them."""
    rendered = of(OLD_GROUPS)
    rendered.control_plane.spec.version = "v1.34.1"
    assert cgroup_v1.CHECK not in errors_ignored(cgroup_v1.with_cgroup_v1(rendered))
