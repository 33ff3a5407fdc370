"""The user that an API server takes the caller for."""

from __future__ import annotations

from espalier.api.trees.json_trees import decode
from espalier.kube.client import Client
from espalier.kube.errors import error_of
from espalier.kube.objects import to_bytes
from espalier.kube.transports.wire import Request, User

_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def own_user(client: Client) -> User:
    """The caller's user, without a name if the API server does not tell. Raises `KubeError`."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    response = await client.raw(Request("POST", _REVIEW, {}, {"content-type": "application/json"}, to_bytes(body)))
    if response.status in (403, 404):
        return User("", ())
    if response.status != 201:
        raise error_of(response.status, response.body)
    user = (decode(response.body).get("status") or {}).get("userInfo") or {}
    return User(str(user.get("username") or ""), tuple(user.get("groups") or ()))
