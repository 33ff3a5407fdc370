"""Single rules on specs, beyond what whole manifests show: fields that are absent, and halves of conditions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.eksa import cluster as eksa
from espalier.clusters.admission.release_admission import field_differences
from espalier.clusters.design.layers import release
from espalier.clusters.observe.rules import changes, content, numbers, releases, warnings
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.clusters.observe.rules.machines import bottlerocket
from espalier.providers.registry import PROVIDERS
from tests.support.objects.observed_clusters import as_object, example


def cluster(name: str = "docker.yaml", **spec: Any) -> eksa.Cluster:
    return as_object(next(item for item in example(name, **spec) if item["kind"] == "Cluster")).decode(eksa.Cluster)


def fields(value: Any) -> list[str]:
    return [item.field for item in value]


REFERENCE = {"kind": "FluxConfig", "name": "flux"}


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [(None, REFERENCE, []), (REFERENCE, None, ["spec.gitOpsRef"]), (REFERENCE, REFERENCE, []), (None, None, [])],
)
def test_gitops_may_be_configured_later_and_stays(before: Any, after: Any, refused: list[str]) -> None:
    assert fields(changes.fixed(cluster(gitOpsRef=before).spec, cluster(gitOpsRef=after).spec)) == refused


def test_fields_of_a_network_that_is_absent_are_absent() -> None:
    """A spec from before they were required is compared like any other."""
    without = msgspec.structs.replace(cluster().spec, cluster_network=None)
    assert list(changes.fixed(without, without)) == []
    assert "spec.clusterNetwork.pods" in fields(changes.fixed(without, cluster().spec))


@pytest.mark.parametrize(("manifest", "refused"), [("docker.yaml", True), ("tinkerbell.yaml", False)])
def test_some_providers_make_clusters_without_workers(manifest: str, refused: bool) -> None:
    result = content.violations(cluster(manifest, workerNodeGroupConfigurations=[]), PROVIDERS)
    assert ("spec.workerNodeGroupConfigurations" in fields(result)) is refused


@pytest.mark.parametrize(
    ("host", "other", "namespace", "shared"),
    [
        ("10.0.0.9", "10.0.0.9", "default", True),
        ("10.0.0.9", "10.0.0.9", "elsewhere", True),
        ("10.0.0.9:6443", "10.0.0.9:7443", "default", False),
        ("10.0.0.9:6443", "10.0.0.9:7443", "elsewhere", True),
        ("10.0.0.9", "10.0.0.8", "elsewhere", False),
        ("10.0.0.9", None, "elsewhere", False),
        (None, "10.0.0.9", "elsewhere", False),
        (None, None, "elsewhere", False),
    ],
)
def test_clusters_share_an_endpoint_that_both_name(
    host: str | None, other: str | None, namespace: str, shared: bool
) -> None:
    def of(value: str | None, where: str) -> eksa.Cluster:
        spec = {"count": 1, **({"endpoint": {"host": value}} if value else {})}
        tree = next(item for item in example(controlPlaneConfiguration=spec) if item["kind"] == "Cluster")
        tree["metadata"]["namespace"] = where
        return as_object(tree).decode(eksa.Cluster)

    assert endpoint.is_shared(of(host, "default"), of(other, namespace)) is shared


def test_rules_on_an_endpoint_leave_out_what_is_absent() -> None:
    without = msgspec.structs.replace(cluster().spec, control_plane_configuration=None)
    assert list(endpoint.warnings(without)) == []
    assert list(endpoint.violations(without)) == []
    assert list(numbers.health_checks(without)) == []


@pytest.mark.parametrize(
    ("dns", "refused"),
    [
        (None, []),
        ({}, []),
        ({"resolvConf": {}}, []),
        ({"resolvConf": {"path": "/etc/own"}}, ["spec.clusterNetwork.dns.resolvConf.path"]),
    ],
)
def test_bottlerocket_takes_no_file_of_name_servers(dns: Any, refused: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(bottlerocket, "bottlerocket_groups", lambda *_: ("spec.controlPlaneConfiguration",))
    network = {**next(item for item in example() if item["kind"] == "Cluster")["spec"]["clusterNetwork"], "dns": dns}
    assert fields(bottlerocket.violations(None, cluster(clusterNetwork=network).spec, ())) == refused


@pytest.mark.parametrize("version", ["banana", ""])
def test_a_release_that_is_none_is_ahead_of_nobody(version: str) -> None:
    """Another rule refuses it; this one must not fail on it."""
    managed = [(cluster(), release("v0.26.0"))]
    assert list(releases.managed(cluster(), cluster(eksaVersion=version), managed)) == []


def test_fields_left_to_defaults_give_a_warning() -> None:
    config = as_object({"kind": "K", "metadata": {"name": "cp"}, "spec": {"memory": 0, "disk": None}})
    results = list(warnings._defaults(config, {"memory": "8 GiB", "disk": "25 GiB", "cpus": "2"}))
    assert results == ["K cp: spec: not set, so the defaults of EKS Anywhere apply: disk (25 GiB), cpus (2)"]
    assert list(warnings._defaults(config, {"memory": "8 GiB"})) == []


def test_lists_of_other_length_differ_completely() -> None:
    """An index would name another item than the one that was added."""
    assert [item for item, *_ in field_differences("a", [1, 2], [1, 3])] == ["a[1]"]
    assert [item for item, *_ in field_differences("a", [1, 2], [1, 2, 3])] == ["a"]
    assert [item for item, *_ in field_differences("a", [1], None)] == ["a"]
    assert [item for item, *_ in field_differences("a", [1], {"b": 1})] == ["a"]
