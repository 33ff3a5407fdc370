"""A manifest goes in, a sentence comes out: what admission says of Clusters before they are stored."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, PAUSED_BY_COMMAND
from espalier.api.meta import Tree
from espalier.clusters.admission import admission
from espalier.clusters.admission.admission import Admission
from espalier.clusters.admission.release_admission import validate_bundles, validate_release
from espalier.clusters.design.audit_policy import AUDIT_POLICY
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.scope import read
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse
from tests.support.objects.observed_clusters import NAMESPACE, NOW, RELEASES, as_object, laptop, observer
from tests.support.objects.refused_clusters import CHANGED, WRONG
from tests.support.providers.connected_examples import COMPANY
from tests.support.servers.admission_reviews import (
    AUDIT,
    CONTROL_PLANE,
    GROUP,
    NETWORK,
    POLICY,
    SPEC,
    STRATEGY,
    ask,
    edited,
    garden,
    paused,
)


def test_the_example_is_accepted_without_a_word() -> None:
    response = ask(garden())
    assert response.allowed
    assert response.warnings == ()


def test_replaced_groups_need_no_limit_at_a_time() -> None:
    """Messages advise to set just the type; the limits are Cluster API's own then, as without a strategy."""
    response = ask(edited({GROUP + STRATEGY: {"type": "RollingUpdate"}}))
    assert (response.allowed, response.message) == (True, "")


def test_version_near_end_of_its_support_is_warned_of() -> None:
    near = edited({SPEC + "kubernetesVersion": "1.34"})
    result = "spec.kubernetesVersion: Kubernetes 1.34 (support ends on 2026-12-02); plan an upgrade"
    assert ask(near, now=datetime(2026, 10, 2, tzinfo=UTC)).warnings == ()
    assert ask(near, now=datetime(2026, 10, 3, tzinfo=UTC)).warnings == (result,)
    over = ask(near, now=datetime(2027, 1, 1, tzinfo=UTC))
    assert over.warnings == (result.replace("ends", "ended"),)
    assert over.allowed
    on = edited({SPEC + "kubernetesVersion": "1.35"}, near)
    assert ask(on, near, now=datetime(2027, 1, 1, tzinfo=UTC)).warnings == ()


def test_version_of_a_group_near_its_end_warns() -> None:
    lags = edited({GROUP + "kubernetesVersion": "1.34"})
    result = "spec.workerNodeGroupConfigurations[0].kubernetesVersion: Kubernetes 1.34 (support ended on 2026-12-02); "
    assert ask(lags, now=datetime(2027, 1, 1, tzinfo=UTC)).warnings == (result + "plan an upgrade",)
    same = edited({SPEC + "kubernetesVersion": "1.34"}, lags)
    assert len(ask(same, now=datetime(2027, 1, 1, tzinfo=UTC)).warnings) == 1, "once for each version"


@pytest.mark.demand(L8="identity providers are refused, GitOps is warned of", L22="webhooks ask no server")
@pytest.mark.parametrize(("edits", "field", "sentence"), WRONG)
def test_wrong_field_is_refused_with_its_path(edits: dict[str, Any], field: str, sentence: str) -> None:
    response = ask(edited(edits))
    assert not response.allowed
    assert response.code == 422
    blamed = {cause.field: cause.message for cause in response.causes}
    assert sentence in blamed.get(field, ""), blamed
    assert field in response.message


@pytest.mark.parametrize(
    "rules",
    [
        "- {level: None, unknownField: 1}",
        "- {level: Metadata, users: null, omitManagedFields: true, omitStages: [Panic]}",
        "- {level: None, nonResourceURLs: ['*', '/healthz*', /version]}",
        "- {level: Request, namespaces: [''], resources: [{group: ''}, {group: apps, resources: ['*/scale']}]}",
        "- {level: Request, resources: [{group: null, resources: [secrets], resourceNames: [a]}]}",
    ],
)
def test_startable_audit_policies_are_accepted(rules: str) -> None:
    response = ask(edited({AUDIT: f"{POLICY}omitManagedFields: true\nrules:\n{rules}\n"}))
    assert (response.allowed, response.warnings) == (True, ()), response.message


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        *(("v", "0"), ("request-timeout", "1m30s"), ("request-timeout", "0"), ("event-ttl", "1.5h")),
        *(("profiling", "True"), ("profiling", "0"), ("feature-gates", ""), ("feature-gates", "A=true,B=False")),
        *(("allow-privileged", "true"), ("unknown-flag", "anything at all"), ("oidc-issuer-url", "")),
    ],
)
def test_values_of_flags_that_may_work_are_accepted(flag: str, value: str) -> None:
    response = ask(edited({CONTROL_PLANE + "apiServerExtraArgs": {flag: value}}))
    assert response.allowed, response.message


@pytest.mark.parametrize(
    ("flag", "value"),
    [("feature-gates", "A=trueX=t" * 20_000), ("event-ttl", "1" * 200_000), ("v", "1" * 200_000 + "y")],
)
def test_values_of_flags_are_judged_in_linear_time(flag: str, value: str) -> None:
    began = time.process_time()
    assert not ask(edited({CONTROL_PLANE + "apiServerExtraArgs": {flag: value}})).allowed
    assert time.process_time() - began < 5


def test_passed_on_fields_have_any_readable_value() -> None:
    everything = {
        AUDIT: AUDIT_POLICY,
        CONTROL_PLANE + "apiServerExtraArgs": {"audit-log-maxage": "7", "feature-gates": "A=true"},
        CONTROL_PLANE + "taints": [{"key": "example.com/a", "effect": "NoSchedule", "value": "b"}],
        GROUP + "kubeletConfiguration": {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "maxPods": 50,
            "authentication": {"anonymous": {"enabled": False}},
            "evictionHard": {
                "memory.available": "5%",
                "nodefs.available": "0%",
                "pid.available": "1e3",
                "imagefs.available": "1.5Gi",
            },
            "evictionSoft": {"memory.available": "10%", "nodefs.inodesFree": "100%"},
            "evictionSoftGracePeriod": {"memory.available": "1m30s"},
            "podPidsLimit": -1,
            "nodeStatusMaxImages": -1,
            "volumeStatsAggPeriod": "-1s",
            "clusterDNS": ["169.254.20.10", "fd00::a"],
            "cpuManagerPolicy": "",
            "registerWithTaints": [{"key": "example.com/a", "effect": "NoSchedule", "value": ""}],
            "systemReserved": {"cpu": "0.5", "memory": "200Mi", "ephemeral-storage": "1Gi", "pid": "100"},
            "imageGCHighThresholdPercent": 70,
            "imageGCLowThresholdPercent": 50,
            "featureGates": {"NotYetKnown": True},
            "tlsCipherSuites": ["NOT_YET_KNOWN"],
            "shutdownGracePeriod": "1m30s",
        },
    }
    assert ask(edited(everything)).causes == ()


def test_all_that_is_wrong_is_said_at_once() -> None:
    response = ask(edited({CONTROL_PLANE + "count": 2, GROUP + "name": "X", SPEC + "kubernetesVersion": "1.30"}))
    assert [cause.field for cause in response.causes] == [
        CONTROL_PLANE + "count",
        GROUP + "name",
        "spec.kubernetesVersion",
    ]


@pytest.mark.parametrize(("edits", "field", "sentence"), CHANGED)
def test_change_keeps_fixed_fields_and_single_steps(edits: dict[str, Any], field: str | None, sentence: str) -> None:
    response = ask(edited(edits), garden())
    if field is None:
        assert response.allowed
    else:
        assert any(cause.field == field and sentence in cause.message for cause in response.causes), response.causes


def test_group_takes_versions_one_step_at_time_as_well() -> None:
    old = edited({SPEC + "kubernetesVersion": "1.36", GROUP + "kubernetesVersion": "1.34"})
    behind = edited({GROUP + "kubernetesVersion": "1.35"}, old)
    assert ask(behind, old).allowed
    follows_at_once = edited({GROUP + "kubernetesVersion": None}, old)
    assert ask(follows_at_once, old).causes[0].field == GROUP + "kubernetesVersion"


def test_immutable_fields_may_change_in_a_pause() -> None:
    assert ask(edited({SPEC + "datacenterRef.name": "other"}), paused(garden())).allowed


def test_pause_of_command_lets_no_fixed_field_change() -> None:
    """It ends with the change that the command writes, which is then carried out."""
    of_command = edited({"metadata.annotations": {PAUSED_ANNOTATION: f"{PAUSED_BY_COMMAND}1"}})
    assert not ask(edited({SPEC + "datacenterRef.name": "other"}, of_command), of_command).allowed
    record = edited({"metadata.annotations": {PAUSED_ANNOTATION: f"{PAUSED_BY_COMMAND}1"}}, laptop())
    assert "self-managed" in ask(record, laptop()).message


def test_finalizers_of_a_bad_cluster_can_be_changed() -> None:
    bad = edited({CONTROL_PLANE + "count": 2})
    assert ask(edited({"metadata.labels": {"a": "b"}}, bad), bad).allowed


def test_cluster_that_is_being_deleted_is_not_held_up() -> None:
    going = edited({CONTROL_PLANE + "count": 2, "metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert ask(going, garden()).allowed


@pytest.mark.demand("L7", "L47", L49="by nothing else than the command line")
def test_self_managed_cluster_is_refused_with_advice() -> None:
    for edits in ({SPEC + "managementCluster": {"name": "garden"}}, {SPEC + "managementCluster": None}):
        response = ask(edited(edits))
        assert not response.allowed
        assert "spec.managementCluster.name: a self-managed cluster" in response.message
        assert "name the cluster that manages it" in response.message
        assert "espalier upgrade" not in response.message, "which can't do it either"


@pytest.mark.demand("L47", L49="by nothing else than the command line")
def test_record_is_accepted_paused_and_stays_paused() -> None:
    response = ask(laptop())
    assert response.allowed
    assert "does not act on" in response.warnings[0]
    unpaused = edited({"metadata.annotations": None}, laptop())
    assert "self-managed" in ask(unpaused, laptop()).message


def test_a_record_that_is_unpaused_is_told_that_alone() -> None:
    """Its other faults are judged when it names the cluster that manages it."""
    wrong = edited({CONTROL_PLANE + "count": 2, "metadata.annotations": None}, laptop())
    response = ask(wrong, laptop())
    assert [cause.field for cause in response.causes] == ["spec.managementCluster.name"]
    assert len(ask(wrong).causes) > 1


def test_nothing_is_previewed_of_a_cluster_that_goes() -> None:
    """It is deleted, whatever its spec asks for."""
    changed = edited({CONTROL_PLANE + "count": 3}, garden())
    assert ask(changed, garden(), garden(), dry_run=True).warnings
    going = edited({"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}, changed)
    assert ask(going, garden(), garden(), dry_run=True).warnings == ()


@pytest.mark.parametrize("flag", ["secure-port", "etcd-servers"])
def test_a_flag_that_is_refused_is_not_called_unknown(flag: str) -> None:
    response = ask(edited({CONTROL_PLANE + "apiServerExtraArgs": {flag: "1"}}))
    assert not response.allowed
    assert messages.UNKNOWN_FLAG not in str(response.warnings)


@pytest.mark.parametrize(
    ("kind", "without", "refused"),
    [
        ("AWSIamConfig", ["distro-1-35"], True),
        ("AWSIamConfig", ["distro-1-36"], False),
        ("AWSIamConfig", [], False),
        ("OIDCConfig", ["distro-1-35"], False),
    ],
)
def test_aws_users_need_authenticator_of_their_release(
    kind: str, without: list[str], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases before v0.26.0 have no image of it: API servers would ask a webhook that nobody serves."""
    entries = [
        SimpleNamespace(kube_version=version, eks_d=SimpleNamespace(name=f"distro-{version.replace('.', '-')}"))
        for version in ("1.35", "1.36")
    ]
    bundles = SimpleNamespace(spec=SimpleNamespace(versions_bundles=entries))
    distro: Any = lambda name: SimpleNamespace(metadata=SimpleNamespace(name=name))  # noqa: E731
    known: Any = SimpleNamespace(releases=SimpleNamespace(bundles=lambda _spec: bundles, distro=distro))
    monkeypatch.setattr(admission, "_has_authenticator", lambda value: value.metadata.name not in without)
    references = [{"kind": kind, "name": "users"}]
    asked = read(as_object(garden(kubernetesVersion="1.35", identityProviderRefs=references)))
    value = list(Admission(known, lambda: NOW)._authenticator_violations(asked))
    assert [item.field for item in value] == ["spec.identityProviderRefs[0].kind"] * refused


def test_second_cluster_of_the_name_is_always_refused() -> None:
    other = edited({"metadata.namespace": "team-b"})
    assert "there is a cluster team-b/garden" in ask(garden(), None, other).message


@pytest.mark.parametrize(
    ("edits", "warning"),
    [
        ({SPEC + "packages": {}}, "spec.packages"),
        ({SPEC + "licenseToken": "secret-token"}, "spec.licenseToken"),
        ({CONTROL_PLANE + "machineGroupRef": {"kind": "A", "name": "a"}}, CONTROL_PLANE + "machineGroupRef"),
        ({GROUP + "machineGroupRef": {"kind": "A", "name": "a"}}, GROUP + "machineGroupRef"),
        ({CONTROL_PLANE + "skipLoadBalancerDeployment": True}, CONTROL_PLANE + "skipLoadBalancerDeployment"),
        ({NETWORK + "cni": "kindnetd", NETWORK + "cniConfig": None}, NETWORK + "cni"),
        ({CONTROL_PLANE + "apiServerExtraArgs": {"v": "1", "vv": "1"}}, CONTROL_PLANE + "apiServerExtraArgs.vv"),
    ],
)  # fmt: skip
def test_fields_without_effect_give_a_warning(edits: dict[str, Any], warning: str) -> None:
    response = ask(edited(edits))
    assert response.allowed, response.message
    assert [text.partition(":")[0] for text in response.warnings] == [warning]
    assert "secret-token" not in "".join(response.warnings)


def test_provider_of_kubernetes_users_gives_a_warning() -> None:
    asked = edited({SPEC + "identityProviderRefs": [{"kind": "OIDCConfig", "name": "company"}]})
    assert ask(asked, None, COMPANY).warnings == ()
    powerful = COMPANY | {"spec": COMPANY["spec"] | {"groupsPrefix": "system:"}}
    (warning,) = ask(asked, None, powerful).warnings
    assert warning.startswith("OIDCConfig company: spec.groupsPrefix: users and groups of Kubernetes itself begin with")


def default(tree: Tree) -> Tree:
    request = AdmissionRequest("CREATE", "Cluster", NAMESPACE, "garden", ADMIN, as_object(tree))
    changed = Admission(observer(), lambda: NOW).default(request).changed
    assert changed is not None
    return changed


@pytest.mark.demand("L55")
def test_omitted_fields_get_defaults() -> None:
    bare = edited({SPEC + "eksaVersion": None, GROUP + "name": None, GROUP + "count": None})
    spec = default(bare)["spec"]
    assert spec["eksaVersion"] == "v0.26.0"
    assert spec["workerNodeGroupConfigurations"] == [{"name": "md-0", "count": 1}]


@pytest.mark.demand("L56")
def test_given_fields_stay_as_they_are() -> None:
    assert default(garden()) == garden()


def test_facts_of_a_release_do_not_change() -> None:
    release = RELEASES.newest().eksa_release
    tree: Tree = {"apiVersion": release.api_version, "kind": release.kind, "metadata": {"name": release.metadata.name}}
    spec = {"version": "v0.26.0", "date": "d", "gitCommit": "c", "bundleManifestUrl": "u"}
    old = tree | {"spec": spec | {"bundlesRef": {"apiVersion": "a", "name": "b", "namespace": "n"}}}
    new = edited({"spec.gitCommit": "other"}, old)

    def change(old: Tree, new: Tree) -> AdmissionResponse:
        request = AdmissionRequest("UPDATE", "EKSARelease", "", "x", ADMIN, as_object(new), as_object(old))
        return validate_release(request)

    assert change(old, edited({"metadata.labels": {"a": "b"}}, old)).allowed
    assert "create an EKSARelease for another version" in change(old, new).message


def test_bundles_have_unique_versions_and_valid_images() -> None:
    haproxy = {"haproxy": {"image": {"uri": "example.com/haproxy"}}}
    bundles: Tree = {
        "kind": "Bundles",
        "metadata": {"name": "b"},
        "spec": {
            "number": 1,
            "cliMinVersion": "v1",
            "cliMaxVersion": "v1",
            "versionsBundles": [{"kubeVersion": "1.35"}, {"kubeVersion": "1.35"} | haproxy],
        },
    }
    request = AdmissionRequest("CREATE", "Bundles", "eksa-system", "b", ADMIN, as_object(bundles))
    fields = [cause.field for cause in validate_bundles(request).causes]
    assert fields == ["spec.versionsBundles[1].kubeVersion", "spec.versionsBundles[1].haproxy.image.uri"]
    stored, labelled = as_object(bundles), as_object(edited({"metadata.labels": {"a": "b"}}, bundles))
    request = AdmissionRequest("UPDATE", "Bundles", "eksa-system", "b", ADMIN, labelled, stored)
    assert validate_bundles(request).allowed  # what is stored is not judged again


@pytest.mark.parametrize("managed", [None, [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}]])
def test_older_status_is_no_reason_to_refuse_a_change(managed: list[Tree] | None) -> None:
    """kube-apiserver sends `managedFields` to webhooks as well."""
    status = {"conditions": [{"type": "Ready", "status": "True", "severity": "Info"}]}
    old = edited({"status": status} | ({"metadata.managedFields": managed} if managed else {}))
    assert ask(edited({GROUP + "count": 3}, old), old).allowed
