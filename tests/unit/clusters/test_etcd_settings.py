"""Settings of etcd that the next etcd no longer takes, found before a control plane is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.clusters.act.steps import STEPS, check_etcd, check_in_place
from espalier.clusters.observe.rules.control_planes.etcd_settings import removed_setting
from espalier.clusters.observe.scope import Scope
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controllers.outcome import Continue, Wait

OLD = "v3.6.8-eks-1-36-1"
FLAG = {"name": "experimental-initial-corrupt-check", "value": "true"}
VARIABLE = {"name": "ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME", "value": "1h"}
PLACE = "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local"


def control_plane(tag: str = OLD, **local: Any) -> dict[str, Any]:
    etcd = {"local": {"imageTag": tag, **local}}
    return {"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"etcd": etcd}}}}


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
        ({"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"external": {}}}}}}, "3.7.3"),
        ({"spec": {"kubeadmConfigSpec": None}}, "3.7.3"),
        ({}, "3.7.3"),
    ],
)
def test_what_the_next_etcd_takes_is_not_named(value: dict[str, Any], wanted: str) -> None:
    assert removed_setting(value, wanted) == ""


def scope(tree: dict[str, Any] | None, wanted: str) -> Scope:
    metadata = {"namespace": "eksa-system", "name": "garden"}
    result = {} if tree is None else {"garden": Object(encode_json({"metadata": metadata, **tree}))}
    objects = SimpleNamespace(of=lambda _: result)
    components = SimpleNamespace(distro=SimpleNamespace(etcd_version=wanted))
    return cast(Scope, SimpleNamespace(capi_objects=objects, components=components))


def test_a_control_plane_with_such_a_setting_waits() -> None:
    decision = check_etcd(scope(control_plane(extraArgs=[FLAG]), "3.7.0"))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.ETCD_SETTINGS_REMOVED
    assert decision.message.startswith("KubeadmControlPlane eksa-system/garden: etcd 3.7 does not start")
    assert isinstance(check_etcd(scope(control_plane(extraArgs=[FLAG]), "3.6.8")), Continue)
    assert isinstance(check_etcd(scope(None, "3.7.0")), Continue)


def test_settings_are_checked_before_any_write() -> None:
    names = [getattr(getattr(step, "decide", step), "__name__", "") for step in STEPS]
    assert names.index(check_etcd.__name__) == names.index(check_in_place.__name__) + 1
