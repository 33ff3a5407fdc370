"""The kinds of access reviews, which are answered and not stored."""

from __future__ import annotations

from espalier.api import conditions
from espalier.api.meta import Tree
from espalier.apiserver.access.authorization import MASTERS
from espalier.apiserver.access.webhooks import user_info
from espalier.apiserver.core.core import Answer, Core
from espalier.apiserver.core.storage_pipeline import manager_of
from espalier.apiserver.requests import bodies
from espalier.apiserver.requests.requests import Attributes, RequestInfo
from espalier.apiserver.wire import failures
from espalier.kube.objects import encode_json
from espalier.kube.server_side_apply import managed_fields
from espalier.kube.transports.wire import User

KINDS = frozenset(
    {
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
    }
)
_GROUP = "authorization.k8s.io"


def review(core: Core, info: RequestInfo) -> Answer:
    """The answer to a review."""
    tree = bodies.object_of(info)
    spec = tree.get("spec") or {}
    match info.kind.resource.plural:
        case "selfsubjectreviews":
            status: Tree = {"userInfo": user_info(info.user)}
        case "tokenreviews":
            status = {"authenticated": False, "error": "this API server issues no tokens to review"}
        case "selfsubjectrulesreviews":
            status = _rules(info.user)
        case "selfsubjectaccessreviews":
            status = _access(core, spec, info.user)
        case _:
            if not spec.get("user") and not spec.get("groups"):
                cause = failures.invalid("spec.user", "", "at least one of user or group must be specified")
                raise failures.invalid_object("", _GROUP, "", [cause])
            user = User(str(spec.get("user", "")), tuple(spec.get("groups") or ()))
            status = _access(core, spec, user)
    now = conditions.timestamp(core.now())
    managers = managed_fields.update({}, tree, {}, manager_of(info, "Update"), info.kind.node, now)
    metadata = {**tree["metadata"], "managedFields": managed_fields.encode(managers)}
    return Answer(encode_json({**tree, "metadata": metadata, "status": status}), core.store.durable, 201)


def _access(core: Core, spec: Tree, user: User) -> Tree:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        cause = failures.invalid(
            "spec.resourceAttributes",
            resource,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )
        raise failures.invalid_object("", _GROUP, "", [cause])
    if resource is None:
        # Discovery and health are open to every authenticated user.
        return {"allowed": True}
    attributes = Attributes(
        verb=resource.get("verb", ""),
        group=resource.get("group", ""),
        resource=resource.get("resource", ""),
        subresource=resource.get("subresource", ""),
        namespace=resource.get("namespace", ""),
        name=resource.get("name", ""),
    )
    return {"allowed": core.authorizer(attributes, user)}


def _rules(user: User) -> Tree:
    everything = MASTERS in user.groups
    resources = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}] if everything else []
    others = [{"verbs": ["*"], "nonResourceURLs": ["*"]}] if everything else []
    return {"resourceRules": resources, "nonResourceRules": others, "incomplete": False}
