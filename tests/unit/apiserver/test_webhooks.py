"""Admission webhooks: which see a write, what they are sent, what their answers do."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from espalier.api.resource import Resource
from espalier.apiserver.access.webhook_calls import HttpWebhooks
from espalier.apiserver.access.webhooks import Admitted, CallFailed, Calls, WebhookCall, mutate, validate
from espalier.apiserver.builtin.webhook_rules import Admission, Webhook, problems_of, webhooks_of
from espalier.apiserver.http import Connections, tls_context
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import ApiError, BadRequest, Forbidden, Invalid, ServerFailure
from espalier.kube.transports.wire import User

CLUSTERS = Resource("anywhere.eks.amazonaws.com", "v1alpha1", "clusters", "Cluster")
CLUSTERS_V2 = CLUSTERS._replace(version="v2")
Tree = dict[str, Any]
Behaviour = Callable[[Tree], Tree | CallFailed]


def configuration(**webhook: Any) -> Tree:
    defaults = {
        "name": "check.clusters.example.org",
        "clientConfig": {"url": "https://127.0.0.1:9443/check", "caBundle": base64.b64encode(b"ca").decode()},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "x"}, "webhooks": [{**defaults, **webhook}]}


def webhook(**fields: Any) -> Webhook:
    return webhooks_of([json.dumps(configuration(**fields)).encode()])[0]


def cluster(**spec: Any) -> Tree:
    return {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "default", "labels": {"team": "blue"}},
        "spec": spec,
    }


def admission(**fields: Any) -> Admission:
    defaults: Tree = {
        "operation": "CREATE",
        "resource": CLUSTERS,
        "user": User("alice", ("painters",)),
        "name": "one",
        "namespace": "default",
        "object": cluster(count=1),
        "namespace_labels": {"env": "test"},
    }
    return Admission(**{**defaults, **fields})


def drive(calls: Calls, *behaviours: Behaviour) -> tuple[Admitted, list[Tree]]:
    """Run a generator of calls against behaviours (in turn, the last for ever); also gives the requests made."""
    turns = itertools.chain(behaviours, itertools.repeat(behaviours[-1] if behaviours else allow))
    made: list[Tree] = []
    results: Sequence[bytes | CallFailed] | None = None
    while True:
        try:
            batch = next(calls) if results is None else calls.send(results)
        except StopIteration as stop:
            return stop.value, made
        answers: list[bytes | CallFailed] = []
        for call in batch:
            request = json.loads(call.body)["request"]
            made.append(request)
            answer = next(turns)(request)
            answers.append(answer if isinstance(answer, CallFailed) else json.dumps(answer).encode())
        results = answers


def review(request: Tree, **response: Any) -> Tree:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": True, **response},
    }


def allow(request: Tree) -> Tree:
    return review(request)


def deny(**status: Any) -> Behaviour:
    return lambda request: review(request, allowed=False, status=status)


def patch(*operations: Tree) -> Behaviour:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: review(request, patch=encoded, patchType="JSONPatch")


def uids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"uid-{next(numbers)}"


@pytest.mark.parametrize(
    ("rule", "fields", "called"),
    [
        ({}, {}, True),
        ({"operations": ["UPDATE", "DELETE"]}, {}, False),
        ({"operations": ["UPDATE", "CREATE"]}, {}, True),
        ({"apiGroups": [""]}, {}, False),
        ({"apiGroups": ["anywhere.eks.amazonaws.com"]}, {}, True),
        ({"resources": ["clusters"]}, {}, True),
        ({"resources": ["bundles"]}, {}, False),
        ({"resources": ["clusters"]}, {"subresource": "status"}, False),
        ({"resources": ["clusters/status"]}, {"subresource": "status"}, True),
        ({"resources": ["clusters/*"]}, {"subresource": "status"}, True),
        ({"resources": ["clusters/*"]}, {}, True),
        ({"resources": ["*/status"]}, {}, False),
        ({"resources": ["*/*"]}, {"subresource": "scale"}, True),
        ({"resources": ["*"]}, {"subresource": "scale"}, False),
        ({"scope": "Cluster"}, {}, False),
        ({"scope": "Namespaced"}, {}, True),
    ],
)
def test_rules_say_which_writes_are_seen(rule: Tree, fields: Tree, called: bool) -> None:
    base = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    _, made = drive(validate([webhook(rules=[{**base, **rule}])], admission(**fields), uids()))
    assert bool(made) == called


@pytest.mark.parametrize(
    ("selector", "called"),
    [
        ({}, True),
        ({"matchLabels": {"env": "test"}}, True),
        ({"matchLabels": {"env": "live"}}, False),
        ({"matchExpressions": [{"key": "env", "operator": "In", "values": ["test", "live"]}]}, True),
        ({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["test"]}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "env", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_namespace_and_object_selectors(selector: Tree, called: bool) -> None:
    by_namespace = validate([webhook(namespaceSelector=selector)], admission(), uids())
    assert bool(drive(by_namespace)[1]) == called
    labelled = {**cluster(), "metadata": {"labels": {"env": "test"}}}
    by_object = validate([webhook(objectSelector=selector)], admission(object=labelled), uids())
    assert bool(drive(by_object)[1]) == called


def test_object_selector_also_matches_old_object() -> None:
    was = {**cluster(), "metadata": {"labels": {"guarded": "yes"}}}
    selector = {"matchLabels": {"guarded": "yes"}}
    update = admission(operation="UPDATE", old_object=was, object=cluster())
    assert drive(validate([webhook(objectSelector=selector)], update, uids()))[1]


def test_cluster_scoped_object_matches_no_namespace() -> None:
    calls = validate([webhook(namespaceSelector={"matchLabels": {"a": "b"}})], admission(namespace_labels=None), uids())
    assert drive(calls)[1]


def test_webhook_configurations_are_sent_to_no_webhook() -> None:
    own = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "M", namespaced=False)
    assert not drive(validate([webhook()], admission(resource=own), uids()))[1]


def test_a_webhook_receives_an_admission_review() -> None:
    update = admission(operation="UPDATE", old_object=cluster(count=3), options={"kind": "UpdateOptions"})
    _, (request,) = drive(validate([webhook()], update, uids()))
    gvk = {"group": "anywhere.eks.amazonaws.com", "version": "v1alpha1"}
    assert request == {
        "uid": "uid-1",
        "kind": {**gvk, "kind": "Cluster"},
        "resource": {**gvk, "resource": "clusters"},
        "requestKind": {**gvk, "kind": "Cluster"},
        "requestResource": {**gvk, "resource": "clusters"},
        "name": "one",
        "namespace": "default",
        "operation": "UPDATE",
        "userInfo": {"username": "alice", "groups": ["painters"]},
        "object": cluster(count=1),
        "oldObject": cluster(count=3),
        "dryRun": False,
        "options": {"kind": "UpdateOptions"},
    }


def test_equivalent_version_is_sent_as_the_rule_names() -> None:
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["v2"], "resources": ["clusters"]}]
    seen = admission(equivalents=[CLUSTERS_V2])
    change = patch({"op": "replace", "path": "/spec/count", "value": 5})
    admitted, (request,) = drive(mutate([webhook(rules=rules)], seen, uids()), change)
    assert request["object"]["apiVersion"] == "anywhere.eks.amazonaws.com/v2"
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v2", "v1alpha1")
    assert admitted.object == cluster(count=5)
    assert not drive(mutate([webhook(rules=rules, matchPolicy="Exact")], seen, uids()))[1]


def test_mutating_webhooks_see_earlier_changes() -> None:
    first = patch({"op": "add", "path": "/spec/a", "value": 1})
    second = patch({"op": "add", "path": "/spec/b", "value": 2})
    admitted, made = drive(mutate([webhook(), webhook()], admission(), uids()), first, second)
    assert made[1]["object"] == cluster(count=1, a=1)
    assert admitted.object == cluster(count=1, a=1, b=2)


def test_reinvoked_webhook_sees_later_changes() -> None:
    curious, other = webhook(reinvocationPolicy="IfNeeded"), webhook()
    change = patch({"op": "add", "path": "/spec/b", "value": 2})
    _, made = drive(mutate([curious, other], admission(), uids()), allow, change, allow)
    assert [request["object"]["spec"] for request in made] == [{"count": 1}, {"count": 1}, {"count": 1, "b": 2}]
    _, made = drive(mutate([curious, other], admission(), uids()), change, allow)
    assert len(made) == 2


def test_validating_webhooks_run_together() -> None:
    calls = validate([webhook(), webhook()], admission(), uids())
    assert len(next(calls)) == 2
    with pytest.raises(StopIteration) as stop:
        calls.send([json.dumps(review({"uid": uid}, warnings=[f"from {uid}"])).encode() for uid in ("uid-1", "uid-2")])
    assert stop.value.value.warnings == ("from uid-1", "from uid-2")


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        ({"message": "no"}, BadRequest, ": no"),
        ({"message": "no", "code": 403, "reason": "Forbidden"}, Forbidden, ": no"),
        ({"reason": "Because"}, BadRequest, ": Because"),
        ({}, BadRequest, " without explanation"),
        ({"code": 200, "status": "Success"}, BadRequest, " without explanation"),
    ],
)
@pytest.mark.parametrize("stage", [mutate, validate])
def test_a_denial_has_the_message_of_kube_apiserver(
    stage: Callable[..., Calls], status: Tree, kind: type[ApiError], message: str
) -> None:
    with pytest.raises(kind) as denial:
        drive(stage([webhook()], admission(), uids()), deny(**status))
    assert str(denial.value) == f'admission webhook "check.clusters.example.org" denied the request{message}'


def test_the_causes_of_a_denial_reach_the_client() -> None:
    cause = {"reason": "FieldValueInvalid", "message": "must be odd", "field": "spec.count"}
    with pytest.raises(Invalid) as denial:
        drive(validate([webhook()], admission(), uids()), deny(code=422, reason="Invalid", details={"causes": [cause]}))
    assert denial.value.status.details is not None
    assert denial.value.status.details.causes[0].field == "spec.count"


def test_first_denying_webhook_in_order_answers() -> None:
    with pytest.raises(ApiError, match="denied the request: first"):
        drive(validate([webhook(), webhook()], admission(), uids()), deny(message="first"), deny(message="second"))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda _: CallFailed("failed to call webhook: nobody is there"), "nobody is there"),
        (lambda _: {"apiVersion": "v1", "kind": "Status"}, "expected webhook response of admission.k8s.io/v1"),
        (lambda _: {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}, "webhook response was absent"),
        (lambda _: review({"uid": "other"}), 'expected response.uid="uid-1", got "other"'),
        (lambda request: review(request, patch="W10="), "response.patch but not response.patchType"),
        (lambda request: review(request, allowed="yes"), "could not read the answer"),
    ],
)
def test_without_usable_answer_failure_policy_decides(answer: Behaviour, why: str) -> None:
    with pytest.raises(ServerFailure) as failure:
        drive(mutate([webhook()], admission(), uids()), answer)
    name = "check.clusters.example.org"
    assert str(failure.value).startswith(f'Internal error occurred: failed calling webhook "{name}": ')
    assert why in str(failure.value)
    admitted, _ = drive(mutate([webhook(failurePolicy="Ignore")], admission(), uids()), answer)
    assert admitted.object == cluster(count=1)


def test_a_patch_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ServerFailure, match="could not be applied"):
        drive(mutate([webhook()], admission(), uids()), patch({"op": "remove", "path": "/spec/nothing"}))


def test_a_dry_run_refuses_webhooks_with_side_effects() -> None:
    dry = admission(dry_run=True)
    with pytest.raises(BadRequest, match="does not support dry run"):
        drive(validate([webhook(sideEffects="Some")], dry, uids()))
    _, (request,) = drive(validate([webhook(sideEffects="NoneOnDryRun")], dry, uids()))
    assert request["dryRun"] is True


@pytest.mark.parametrize(
    ("fields", "field", "word"),
    [
        (
            {"matchConditions": [{"name": "a", "expression": "true"}]},
            "matchConditions",
            "does not evaluate matchConditions",
        ),
        ({"name": "short"}, "name", "three segments"),
        ({"clientConfig": {}}, "clientConfig", "exactly one of url or service"),
        ({"clientConfig": {"url": "http://x/"}}, "clientConfig.url", "only allowed URL scheme"),
        ({"sideEffects": "Some"}, "sideEffects", "supported values"),
        ({"timeoutSeconds": 31}, "timeoutSeconds", "between 1 and 30"),
        ({"failurePolicy": "Shrug"}, "failurePolicy", "Unsupported value"),
        ({"admissionReviewVersions": ["v1beta1"]}, "admissionReviewVersions", "must include"),
    ],
)
def test_configuration_that_can_not_hold_is_refused(fields: Tree, field: str, word: str) -> None:
    (cause,) = problems_of(configuration(**fields))
    assert cause.field == f"webhooks[0].{field}"
    assert word in cause.message


def test_configuration_that_can_hold_is_accepted() -> None:
    assert problems_of(configuration()) == []


AUTHORITY = Authority.create("webhooks", now=datetime.now(UTC))


@pytest.fixture
async def webhook_server() -> AsyncIterator[str]:
    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/broken":
            return web.Response(status=500, text="out of order")
        return web.Response(body=request.method.encode() + b" " + request.rel_url.query_string.encode())

    serving = AUTHORITY.issue_server("webhook", names=["127.0.0.1"], now=datetime.now(UTC))
    connections = Connections(answer)
    listener = await asyncio.get_running_loop().create_server(
        connections, "127.0.0.1", 0, ssl=tls_context(serving, AUTHORITY.certificate)
    )
    yield f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    listener.close()
    await connections.end(1.0)


async def test_calls_over_the_network(webhook_server: str) -> None:
    call = HttpWebhooks()

    def to(path: str, ca_bundle: bytes = AUTHORITY.certificate) -> WebhookCall:
        return WebhookCall("w", f"{webhook_server}{path}", ca_bundle, 10, b"{}")

    assert await call(to("/check")) == b"POST timeout=10s"
    with pytest.raises(CallFailed, match="the server answered 500 out of order"):
        await call(to("/broken"))
    stranger = Authority.create("stranger", now=datetime.now(UTC)).certificate
    with pytest.raises(CallFailed, match=r"failed to call webhook: Post .*/check\?timeout=10s.*certificate"):
        await call(to("/check", stranger))
    with pytest.raises(CallFailed, match="reaches no Services"):
        await call(WebhookCall("w", "", b"", 10, b"{}", service="default/hooks"))
    await call.close()


async def test_a_refused_connection_is_told_in_words() -> None:
    call = HttpWebhooks()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(CallFailed) as failure:
        await call(WebhookCall("w", f"https://127.0.0.1:{port}/check", AUTHORITY.certificate, 10, b"{}"))
    await call.close()
    assert str(failure.value).endswith(f'/check?timeout=10s": dial tcp 127.0.0.1:{port}: connection refused')
