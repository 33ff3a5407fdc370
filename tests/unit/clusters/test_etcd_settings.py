"""Upgrades of etcd that can't be made, found before a control plane is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.capi.etcdadm import (
    CloudInitConfig,
    EtcdadmCluster,
    EtcdadmClusterSpec,
    EtcdadmConfigSpec,
    TemplateReference,
)
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import ObjectMeta
from espalier.clusters.act.steps import STEPS, check_etcd, check_in_place
from espalier.clusters.observe.rules.control_planes.etcd_settings import out_of_reach, removed_setting
from espalier.clusters.observe.scope import Scope
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controllers.outcome import Continue, Wait

OLD = "v3.6.8-eks-1-36-1"
FLAG = {"name": "experimental-initial-corrupt-check", "value": "true"}
VARIABLE = {"name": "ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME", "value": "1h"}
PLACE = "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local"


def control_plane(tag: str = OLD, **local: Any) -> dict[str, Any]:
    etcd = {"local": {"imageTag": tag, **local}}
    return {"spec": {"version": "v1.37.2", "kubeadmConfigSpec": {"clusterConfiguration": {"etcd": etcd}}}}


EXTERNAL: dict[str, Any] = {"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"external": {}}}}}}


def test_a_flag_that_the_next_etcd_lacks_is_named() -> None:
    assert removed_setting(control_plane(extraArgs=[{"name": "snapshot-count", "value": "5"}, FLAG]), "3.7.0") == (
        f"etcd 3.7 does not start with flag --experimental-initial-corrupt-check of {PLACE}.extraArgs: remove it, or "
        "set what replaces it, before this change"
    )


def test_variable_that_next_etcd_ignores_is_named() -> None:
    result = removed_setting(control_plane(extraEnvs=[{"name": "GOGC", "value": "50"}, VARIABLE]), "3.7.3")
    assert result.startswith(
        f"etcd 3.7 ignores ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME of {PLACE}.extraEnvs, so that what"
    )


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (control_plane(extraArgs=[FLAG]), "3.6.16"),
        (control_plane("3.7.0-0", extraArgs=[FLAG]), "3.7.3"),
        (control_plane(extraArgs=[{"name": "corrupt-check-time", "value": "1h"}]), "3.7.3"),
        (control_plane(extraArgs=[FLAG]), "latest"),
        (control_plane(extraArgs="experimental-x", extraEnvs=[None, {}]), "3.7.3"),
        (EXTERNAL, "3.7.3"),
        ({"spec": {"kubeadmConfigSpec": None}}, "3.7.3"),
        ({}, "3.7.3"),
    ],
)
def test_what_the_next_etcd_takes_is_not_named(value: dict[str, Any], wanted: str) -> None:
    assert removed_setting(value, wanted) == ""


@pytest.mark.parametrize(
    ("present", "wanted", "sentence"),
    [
        (
            "v3.5.24-eks-1-35-1",
            "3.7.0",
            "found v3.5.24-eks-1-35-1, allowed is a release with etcd 3.5 or 3.6, and this one has 3.7.0: etcd is "
            "upgraded one minor version at a time; choose such a release first",
        ),
        (
            "v3.7.0-eks-1-37-1",
            "3.6.8",
            "found v3.7.0-eks-1-37-1, allowed is a release with etcd 3.7, and this one has 3.6.8: etcd does not start "
            "with data of a later one; choose such a release",
        ),
    ],
    ids=["skipped", "earlier"],
)
def test_an_etcd_out_of_reach_is_named(present: str, wanted: str, sentence: str) -> None:
    assert out_of_reach(control_plane(present), wanted, "v1.37.2") == f"{PLACE}.imageTag: {sentence}"


@pytest.mark.parametrize(
    ("present", "wanted", "kubernetes"),
    [
        ("v3.6.8", "3.7.0", "v1.37.2"),
        ("v3.6.8", "3.6.5", "v1.37.2"),
        ("v3.7.0", "3.6.8", "v1.36.3"),  # reverted before a member has the later etcd
        ("", "3.7.0", "v1.37.2"),
        ("latest", "3.7.0", "v1.37.2"),
        ("v3.5.24", "latest", "v1.37.2"),
    ],
)
def test_an_etcd_within_reach_is_not_named(present: str, wanted: str, kubernetes: str) -> None:
    assert out_of_reach(control_plane(present), wanted, kubernetes) == ""


def scope(tree: dict[str, Any] | None, wanted: str, etcd: EtcdadmCluster | None = None) -> Scope:
    metadata = {"namespace": "eksa-system", "name": "garden"}
    result = {} if tree is None else {"garden": Object(encode_json({"metadata": metadata, **tree}))}
    objects = SimpleNamespace(of=lambda _: result, etcd=etcd)
    components = SimpleNamespace(distro=SimpleNamespace(etcd_version=wanted, version="v1.37.2"))
    return cast(Scope, SimpleNamespace(capi_objects=objects, components=components))


def test_a_control_plane_with_such_a_setting_waits() -> None:
    decision = check_etcd(scope(control_plane(extraArgs=[FLAG]), "3.7.0"))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.ETCD_SETTINGS_REMOVED
    assert decision.message.startswith("KubeadmControlPlane eksa-system/garden: etcd 3.7 does not start")
    assert isinstance(check_etcd(scope(control_plane(extraArgs=[FLAG]), "3.6.8")), Continue)
    assert isinstance(check_etcd(scope(None, "3.7.0")), Continue)


def test_an_etcd_elsewhere_that_skips_one_waits() -> None:
    """It is refused only forward: its spec does not say what its members have."""
    etcd = EtcdadmCluster(
        metadata=ObjectMeta(name="garden-etcd", namespace="eksa-system"),
        spec=EtcdadmClusterSpec(
            replicas=3,
            etcdadm_config_spec=EtcdadmConfigSpec(cloud_init_config=CloudInitConfig(version="3.5.24")),
            infrastructure_template=TemplateReference(
                api_version="infrastructure.cluster.x-k8s.io/v1beta2", kind="T", name="t"
            ),
        ),
    )
    decision = check_etcd(scope(EXTERNAL, "3.7.0", etcd))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.ETCD_UPGRADE_REFUSED
    assert decision.message.startswith(
        "EtcdadmCluster eksa-system/garden-etcd: spec.etcdadmConfigSpec.cloudInitConfig.version: found 3.5.24, allowed"
    )
    assert isinstance(check_etcd(scope(EXTERNAL, "3.6.8", etcd)), Continue)
    assert isinstance(check_etcd(scope(EXTERNAL, "3.4.30", etcd)), Continue)


def test_a_control_plane_whose_etcd_skips_one_waits() -> None:
    decision = check_etcd(scope(control_plane("v3.5.24"), "3.7.0"))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.ETCD_UPGRADE_REFUSED
    assert decision.message.startswith(f"KubeadmControlPlane eksa-system/garden: {PLACE}.imageTag: found v3.5.24")


def test_settings_are_checked_before_any_write() -> None:
    names = [getattr(getattr(step, "decide", step), "__name__", "") for step in STEPS]
    assert names.index(check_etcd.__name__) == names.index(check_in_place.__name__) + 1
