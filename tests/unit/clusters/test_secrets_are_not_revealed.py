"""Secret values of a Cluster appear nowhere: not in a plan, not in an answer of admission, not in a status."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition, Tree
from espalier.api.text.redaction import HIDDEN
from espalier.cli.clusters.plans import plan_text
from espalier.clusters.act.context import ClusterContext, ClusterTools
from espalier.clusters.admission import admission
from espalier.clusters.admission.admission import Admission
from espalier.clusters.design import names
from espalier.clusters.report.status import status_of
from espalier.kube.objects import Object
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.controllers.outcome import Fault
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse
from tests.support.objects.made_clusters import objects
from tests.support.objects.observed_clusters import GARDEN, as_object, datacenter, example, observer, scope
from tests.support.objects.previews import manifest, previews

SECRET_FLAGS = (
    "oidc-client-secret",
    "token-auth-file",
    "etcd-password",
    "service-account-private-key-file",
    "cloud-credentials",
    "bootstrap-token",
    "encryption-key",
)
OPEN_FLAGS = ("oidc-issuer-url", "oidc-username-claim", "service-account-max-token-expiration", "oidc-groups-claim")


@pytest.mark.parametrize("warned", [(), ("as it was: CANARY",)])
def test_refusal_without_warnings_reveals_none_either(warned: tuple[str, ...]) -> None:
    flags = {"apiServerExtraArgs": {SECRET_FLAGS[0]: "CANARY"}}
    cluster = example()[0]
    cluster["spec"]["controlPlaneConfiguration"] |= flags
    response = AdmissionResponse(False, "found CANARY", warnings=warned)
    shown = admission._concealed(as_object(cluster), response)
    assert shown.message == f"found {HIDDEN}"
    assert "CANARY" not in str(shown.warnings)


class Planted:
    """Canaries in every text of a Cluster that a user gives; `secret` are those that nobody may see."""

    def __init__(self, suffix: str = "") -> None:
        self._suffix = suffix
        self.count = 0
        self.secret: list[str] = []
        self.in_a_file = ""

    def new(self, *, secret: bool = False) -> str:
        self.count += 1
        text = f"CANARY{self.count:03}{self._suffix}"
        if secret:
            self.secret.append(text)
        return text

    def cluster(self, base: Tree) -> Tree:
        tree = copy.deepcopy(base)
        spec = tree["spec"]
        plane = spec["controlPlaneConfiguration"]
        plane["apiServerExtraArgs"] = {
            **{flag: self.new(secret=True) for flag in SECRET_FLAGS},
            **{flag: self.new() for flag in OPEN_FLAGS},
            "etcd-servers-overrides": f"/events#https://me:{self.new(secret=True)}@etcd.example.com",
        }
        self.in_a_file = self.new(secret=True)
        plane["auditPolicyContent"] = (
            f"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{{level: None, users: [{self.in_a_file}]}}]\n"
        )
        plane["labels"] = {"team": self.new()}
        plane["taints"] = [{"key": "dedicated", "value": self.new(), "effect": "NoSchedule"}]
        plane["kubeletConfiguration"] = {"clusterDomain": self.new(), "staticPodURLHeader": {"X": [self.new()]}}
        for group in spec["workerNodeGroupConfigurations"]:
            group["labels"] = {"pool": self.new()}
            group["kubeletConfiguration"] = {"staticPodURLHeader": {"Authorization": [self.new(secret=True)]}}
        tree["metadata"].setdefault("annotations", {})["example.com/api-token"] = self.new(secret=True)
        spec["licenseToken"] = self.new(secret=True)
        return tree


def without_secrets(preview: Any) -> str:
    """All that a plan says, to people and to programs."""
    return shown([plan_text.Planned(preview)]) + json.dumps(plan_text.facts([plan_text.Planned(preview)]))


def shown(planned: list[plan_text.Planned]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", paper := io.StringIO())
        plan_text.write(planned)
    return paper.getvalue()


def stories() -> Iterator[tuple[str, Tree, Tree | None, Planted, Planted]]:
    """A Cluster as it is asked for, and as it was: created, changed in every field, and stripped of all of them."""
    plain, linked = (next(tree for tree in trees if tree["kind"] == "Cluster") for trees in (manifest(), example()))
    before, after = Planted(), Planted("y")
    yield "created", after.cluster(plain), None, before, after
    before, after = Planted(), Planted("y")
    yield "changed", after.cluster(plain), before.cluster(linked), before, after
    before, after = Planted(), Planted("y")
    yield "stripped", plain, before.cluster(linked), before, after


@pytest.mark.parametrize("wrong", [{}, {"kubernetesVersion": "1.12"}], ids=["accepted", "refused"])
def test_no_plan_reveals_secrets(wrong: Tree) -> None:
    for story, asked, old, before, after in stories():
        given = [datacenter(), old, *made_of(old)] if old else []
        linked = [item for item in manifest() if item["kind"] != "Cluster"]
        preview = previews(*given).of_change(GARDEN, [*linked, {**asked, "spec": asked["spec"] | wrong}])
        text = without_secrets(preview)
        leaked = [item for item in (*before.secret, *after.secret) if item in text]
        assert not leaked, f"{story}: {leaked} in {text}"
        if story != "stripped":
            assert preview.refusals if wrong else preview.objects
        if story == "changed" and not wrong:
            assert HIDDEN in text
            assert f"{OPEN_FLAGS[0]}" in text
            assert "CANARY008y" in text, "an open flag is shown: a plan that hides everything tells nothing"


def made_of(old: Tree) -> list[Tree]:
    return objects(**{name: value for name, value in old["spec"].items() if name.endswith("Configuration")})


def test_no_answer_of_admission_quotes_what_is_secret() -> None:
    planted = Planted()
    tree = planted.cluster(next(item for item in example() if item["kind"] == "Cluster"))
    flags = tree["spec"]["controlPlaneConfiguration"]["apiServerExtraArgs"]
    flags["service-account-signing-key-file"] = flags["oidc-client-secret"]  # one of ours, so its value is quoted
    asked = as_object(tree)
    admission = Admission(observer(datacenter()), lambda: datetime(2026, 3, 1, tzinfo=UTC))
    request = AdmissionRequest("CREATE", "Cluster", asked.namespace, asked.name, ADMIN, asked)
    answer = admission.validate(request)
    assert not answer.allowed
    text = msgspec.json.encode(answer).decode()
    assert "service-account-signing-key-file" in text
    assert [item for item in planted.secret if item in text] == []


def test_no_status_quotes_what_is_secret() -> None:
    planted = Planted()
    tree = planted.cluster(next(item for item in example() if item["kind"] == "Cluster"))
    seen = scope(tree, datacenter())
    refused = Fault(
        Reason.OBJECT_REFUSED, f"KubeadmControlPlane is invalid: spec: Invalid value: {json.dumps(tree)}", True
    )
    status = status_of(seen, seen.without_secrets(refused), datetime(2026, 3, 1, tzinfo=UTC))
    text = msgspec.json.encode(status).decode()
    assert "is invalid" in text
    # A file is hidden by its path alone: its lines are words that stand in any sentence.
    assert [item for item in planted.secret if item in text and item != planted.in_a_file] == []


def test_conditions_and_events_quote_no_api_server() -> None:
    planted = Planted()
    tree = planted.cluster(next(item for item in example() if item["kind"] == "Cluster"))
    canary = tree["spec"]["controlPlaneConfiguration"]["apiServerExtraArgs"]["oidc-client-secret"]
    refusal = f"KubeadmControlPlane is invalid: spec: Invalid value: {canary!r}"
    seen = scope(tree, datacenter())
    copied = Condition(type=names.KUBECONFIG_COPIED, status="False", reason="Refused", message=refusal)
    outcome = Fault(Reason.OBJECT_REFUSED, refusal, True)  # as it came, whoever passes it on
    status = status_of(seen, outcome, datetime(2026, 3, 1, tzinfo=UTC), None, copied)
    conditions = msgspec.json.encode(status.conditions).decode()
    assert conditions.count("is invalid") >= 1
    assert canary not in conditions

    without_secrets: list[str] = []

    class Paper:
        def event(self, _object: Object, _type: str, _reason: str, message: str) -> None:
            without_secrets.append(message)

    ClusterContext(cast(ClusterTools, SimpleNamespace(recorder=Paper())), seen).event("Warning", "Refused", refusal)
    assert "is invalid" in without_secrets[0]
    assert canary not in without_secrets[0]


def test_invalid_stored_cluster_reveals_no_secrets() -> None:
    planted = Planted()
    tree = planted.cluster(next(item for item in example() if item["kind"] == "Cluster"))
    tree["spec"]["licenseToken"] = [planted.secret[0]]
    with pytest.raises(msgspec.ValidationError):
        Object(msgspec.json.encode(tree)).decode(eksa.Cluster)
    text = without_secrets(previews(tree, datacenter()).as_it_is(GARDEN))
    assert [item for item in planted.secret if item in text] == []
