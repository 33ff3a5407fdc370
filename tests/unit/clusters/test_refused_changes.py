"""A change of an existing Cluster is refused with 403: what answers 422, Flux with `force` deletes."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from espalier.api.meta import Tree
from espalier.clusters.admission.admission import MUTATE_CLUSTER, VALIDATE_CLUSTER, Admission
from espalier.runtime.servers.admission import AdmissionResponse, Handler, Operation, review
from tests.support.objects.observed_clusters import NOW, observer
from tests.support.objects.refused_clusters import CHANGED, WRONG
from tests.support.servers.admission_reviews import SPEC, edited, garden


def asked(path: str, new: Tree, old: Tree | None = None) -> dict[str, Any]:
    """The response of a webhook, as an API server gets it."""
    admission = Admission(observer(), lambda: NOW)
    handler: Handler = {MUTATE_CLUSTER: admission.default, VALIDATE_CLUSTER: admission.validate}[path]
    operation: Operation = "CREATE" if old is None else "UPDATE"
    request = {"uid": "1", "operation": operation, "kind": {"kind": "Cluster"}, "object": new, "oldObject": old}
    answer, _ = review(json.dumps({"request": request}).encode(), handler)
    response: dict[str, Any] = json.loads(answer)["response"]
    return response


def refusal(response: dict[str, Any]) -> tuple[int, str]:
    return response["status"]["code"], response["status"]["reason"]


NAMED = [item for item in WRONG if "metadata.name" not in item[0]]
"""An existing object keeps its name."""


@pytest.mark.parametrize(("edits", "field", "sentence"), NAMED)
def test_a_wrong_change_never_reaches_the_schema(edits: dict[str, Any], field: str, sentence: str) -> None:
    """The mutating webhook is asked before the schema and the rules, which answer 422."""
    response = asked(MUTATE_CLUSTER, edited(edits), garden())
    assert not response["allowed"]
    assert refusal(response) == (403, "Forbidden")
    assert sentence in response["status"]["message"]


def test_a_wrong_type_never_reaches_the_schema() -> None:
    response = asked(MUTATE_CLUSTER, edited({SPEC + "kubernetesVersion": 1.3}), garden())
    assert refusal(response) == (403, "Forbidden")
    assert "YAML reads 1.30 as the number 1.3, and Flux's postBuild substitution" in response["status"]["message"]


def test_a_form_of_the_schema_never_reaches_it() -> None:
    response = asked(MUTATE_CLUSTER, edited({SPEC + "kubernetesVersion": "1.x"}), garden())
    assert refusal(response) == (403, "Forbidden")
    assert "allowed: a minor version such as 1.35" in response["status"]["message"]


@pytest.mark.parametrize(("edits", "field", "sentence"), [item for item in CHANGED if item[1] is not None])
def test_a_change_that_is_not_allowed_is_forbidden(edits: dict[str, Any], field: str, sentence: str) -> None:
    response = asked(MUTATE_CLUSTER, edited(edits), garden())
    assert refusal(response) == (403, "Forbidden")
    assert sentence in response["status"]["message"]


def test_what_was_invalid_before_lets_others_change() -> None:
    old = edited({"metadata.labels": None, SPEC + "machineHealthCheck": {"maxUnhealthy": "-1"}})
    new = edited({"metadata.labels": {"team": "a"}}, old)
    assert asked(MUTATE_CLUSTER, new, old)["allowed"]


def test_refused_change_is_403_and_a_new_cluster_422() -> None:
    wrong = edited({SPEC + "kubernetesVersion": "1.99"})
    assert refusal(asked(VALIDATE_CLUSTER, wrong, garden())) == (403, "Forbidden")
    assert refusal(asked(VALIDATE_CLUSTER, wrong)) == (422, "Invalid")


def test_defaults_of_a_change_are_still_set() -> None:
    old, new = garden(), edited({SPEC + "workerNodeGroupConfigurations[0].count": None})
    patch = json.loads(base64.b64decode(asked(MUTATE_CLUSTER, new, old)["patch"]))
    assert [item["path"] for item in patch] == ["/spec/workerNodeGroupConfigurations/0/count"]


def test_a_version_without_its_zero_names_the_cause() -> None:
    for old in (None, garden()):
        message = asked(VALIDATE_CLUSTER, edited({SPEC + "kubernetesVersion": "1.3"}), old)["status"]["message"]
        assert "1.30 may have lost its zero on the way: put it in quotes" in message


def test_other_refusals_keep_their_code() -> None:
    for code in (403, 503):
        response = AdmissionResponse(False, "no", code, "X")
        assert response.of_an_existing() == response
    assert AdmissionResponse().of_an_existing().allowed
