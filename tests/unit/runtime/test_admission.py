from __future__ import annotations

import base64
from typing import Any

import jsonpatch
import msgspec
import pytest

from espalier.kube.errors import StatusCause
from espalier.runtime.metrics import Metrics
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse, Handler, NoReview
from espalier.runtime.servers.webhooks import Webhooks


def ask(handler: Handler, **request: Any) -> Any:
    webhooks = Webhooks(port=None)
    webhooks.handle("/validate-things", handler)
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u1", **request}}
    answer = msgspec.json.decode(webhooks.review("/validate-things", msgspec.json.encode(body)))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == "u1"
    return answer["response"]


CREATION = {
    "operation": "CREATE",
    "kind": {"group": "g", "version": "v1", "kind": "Thing"},
    "resource": {"group": "g", "version": "v1", "resource": "things"},
    "name": "a",
    "namespace": "default",
    "userInfo": {"username": "ann", "groups": ["staff"], "extra": {"x": ["y"]}},
    "object": {"kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 1, "odd/key": [1, 2]}},
    "oldObject": None,
    "dryRun": True,
    "options": {},
}


def test_a_handler_sees_what_is_asked() -> None:
    seen: list[AdmissionRequest] = []

    def handler(request: AdmissionRequest) -> AdmissionResponse:
        seen.append(request)
        return AdmissionResponse(warnings=("size is deprecated",))

    assert ask(handler, **CREATION) == {"uid": "u1", "allowed": True, "warnings": ["size is deprecated"]}
    (request,) = seen
    assert (request.operation, request.kind, request.namespace, request.name) == ("CREATE", "Thing", "default", "a")
    assert (request.user.name, request.user.groups, request.dry_run) == ("ann", ("staff",), True)
    assert request.object is not None
    assert request.object.tree["spec"]["size"] == 1
    assert request.old is None


def test_refusal_names_object_and_each_wrong_field() -> None:
    causes = (StatusCause(reason="FieldValueInvalid", message="must be odd", field="spec.size"),)
    status = ask(lambda request: AdmissionResponse.refuse_fields("spec.size: must be odd", causes), **CREATION)[
        "status"
    ]
    assert (status["code"], status["reason"], status["message"]) == (422, "Invalid", "spec.size: must be odd")
    assert status["details"] == {
        "name": "a",
        "kind": "Thing",
        "causes": [{"reason": "FieldValueInvalid", "message": "must be odd", "field": "spec.size"}],
    }


def test_a_change_is_answered_as_a_patch_that_makes_it() -> None:
    def handler(request: AdmissionRequest) -> AdmissionResponse:
        assert request.object is not None
        tree = request.object.tree
        tree["spec"] = {"size": 2, "odd/key": [2, 1], "colour": "red"}
        return AdmissionResponse(changed=tree)

    response = ask(handler, **CREATION)
    assert response["patchType"] == "JSONPatch"
    patched = jsonpatch.apply_patch(CREATION["object"], msgspec.json.decode(base64.b64decode(response["patch"])))
    assert patched["spec"] == {"size": 2, "odd/key": [2, 1], "colour": "red"}


def test_no_change_is_no_patch() -> None:
    def handler(request: AdmissionRequest) -> AdmissionResponse:
        return AdmissionResponse(changed=request.object.tree if request.object else None)

    assert "patch" not in ask(handler, **CREATION)


def test_a_handler_that_fails_refuses_and_is_counted() -> None:
    webhooks, metrics = Webhooks(port=None), Metrics()
    webhooks.measured_by(metrics)

    def handler(request: AdmissionRequest) -> AdmissionResponse:
        raise KeyError("secret-of-the-house")

    webhooks.handle("/validate-things", handler)
    body = msgspec.json.encode({"request": {"uid": "u2", **CREATION}})
    response = msgspec.json.decode(webhooks.review("/validate-things", body))["response"]
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
    assert "secret-of-the-house" not in response["status"]["message"]
    line = 'controller_runtime_webhook_requests_total{code="500",webhook="/validate-things"} 1.0'
    assert line in metrics.exposition().decode()


@pytest.mark.parametrize("body", [b"", b"{}", b'{"request": {"uid": 7}}', b'{"request": {"uid": "u"}}'])
def test_a_body_that_is_no_review_is_refused(body: bytes) -> None:
    webhooks = Webhooks(port=None)
    webhooks.handle("/validate-things", lambda request: AdmissionResponse())
    with pytest.raises(NoReview):
        webhooks.review("/validate-things", body)


def test_an_unknown_path_names_those_that_are_served() -> None:
    webhooks = Webhooks(port=None)
    webhooks.handle("/validate-things", lambda request: AdmissionResponse())
    with pytest.raises(LookupError, match="/validate-things"):
        webhooks.review("/mutate-things", b"{}")


@pytest.mark.parametrize("levels", [200, 50_000])
def test_review_of_object_that_is_too_deep_is_denied(levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    body = b'{"kind":"AdmissionReview","request":{"uid":"0a-1b","operation":"CREATE","object":{"spec":%s}}}' % deep
    webhooks = Webhooks(port=None)
    webhooks.handle("/validate-things", lambda request: AdmissionResponse())
    result = msgspec.json.decode(webhooks.review("/validate-things", body))["response"]
    assert (result["uid"], result["allowed"], result["status"]["code"]) == ("0a-1b", False, 422)
    assert "more than 128 levels deep" in result["status"]["message"]
