"""Routes and authorizes requests; no I/O."""

from __future__ import annotations

from espalier.api.meta import Tree
from espalier.apiserver.builtin.tables import form_of
from espalier.apiserver.core import reviews
from espalier.apiserver.core.admission import AdmissionWebhooks
from espalier.apiserver.core.core import Answer, Core, RequestSteps
from espalier.apiserver.core.deleting import Deleter
from espalier.apiserver.core.evicting import Evictor
from espalier.apiserver.core.reading import Reader
from espalier.apiserver.core.writing import Writer
from espalier.apiserver.requests import bodies
from espalier.apiserver.requests.requests import APPLY, RequestInfo, attributes_of
from espalier.apiserver.wire import failures, options
from espalier.kube.objects import encode_json


class Handler:
    """Handles requests for objects."""

    def __init__(self, core: Core) -> None:
        self._core = core
        webhooks = AdmissionWebhooks(core)
        self._reader = Reader(core)
        self._writer = Writer(core, webhooks)
        self._deleter = Deleter(core, webhooks)
        self._evictor = Evictor(core, self._deleter)

    def authorize(self, info: RequestInfo) -> None:
        """Raise `Forbidden` unless the request is authorized."""
        if not self._core.authorizer(attributes_of(info), info.user):
            raise failures.forbidden(
                info.user, info.verb, info.kind.resource, info.subresource, info.namespace, info.name
            )

    def steps(self, info: RequestInfo) -> RequestSteps:
        """The steps of an authorized request."""
        options.check(info.verb, info.query, apply=info.content_type == APPLY)
        resource = info.kind.resource
        if (resource.group, resource.plural) in reviews.KINDS:
            return reviews.review(self._core, info)
        if info.verb == "list":
            return self._reader.list(info)
        if info.verb == "deletecollection":
            return (yield from self._deleter.delete_collection(info))
        answer = yield from self._handle_object(info)
        form = form_of(info.request.headers.get("accept", ""), info.query)
        if form is not None and info.verb != "delete":
            answer.body = form.object(info.kind, answer.body, self._core.now())
        return answer

    def _handle_object(self, info: RequestInfo) -> RequestSteps:
        match info.verb, info.subresource:
            case "get", _:
                return self._reader.get(info)
            case "create", "binding":
                return (yield from self._bind(info))
            case "create", "eviction":
                yield from self._evictor.evict(info)
                return self._created_response()
            case "create", _:
                return (yield from self._writer.create(info))
            case "update", _:
                return (yield from self._writer.update(info))
            case "patch", _:
                return (yield from self._writer.patch(info))
            case "delete", _:
                return (yield from self._deleter.delete(info))
        raise AssertionError(f"no handler for verb {info.verb}")

    def _bind(self, info: RequestInfo) -> RequestSteps:
        """Bind a pod to a node."""
        binding = bodies.object_of(info, "Binding", "v1")
        node = (binding.get("target") or {}).get("name", "")
        if not node:
            cause = failures.required("target.name")
            raise failures.internal_error(f"{cause.field}: {cause.message}")

        def bind(pod: Tree) -> Tree:
            spec = pod.get("spec") or {}
            if spec.get("nodeName"):
                sentence = f'pod {info.name} is already assigned to node "{spec["nodeName"]}"'
                raise failures.conflict(info.kind.resource, info.name, sentence, info.subresource)
            return {**pod, "spec": {**spec, "nodeName": node}}

        yield from self._writer.modify(info, bind)
        return self._created_response()

    def _created_response(self) -> Answer:
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return Answer(encode_json(body), self._core.store.revision, 201)
