"""Routes and authorizes requests; no I/O."""

from __future__ import annotations

from espalier.api.meta import Tree
from espalier.apiserver import authorization, bodies, failures, options
from espalier.apiserver.admission import Admitting
from espalier.apiserver.core import Answer, Core, Steps
from espalier.apiserver.deleting import Deleter
from espalier.apiserver.evicting import Evictor
from espalier.apiserver.reading import Reader
from espalier.apiserver.requests import APPLY, RequestInfo, attributes_of
from espalier.apiserver.tables import form_of
from espalier.apiserver.writing import Writer
from espalier.kube.objects import encode_json


class Handler:
    """Handles requests for objects."""

    def __init__(self, core: Core) -> None:
        self._core = core
        admitting = Admitting(core)
        self._reader = Reader(core)
        self._writer = Writer(core, admitting)
        self._deleter = Deleter(core, admitting)
        self._evictor = Evictor(core, self._deleter)

    def authorize(self, ask: RequestInfo) -> None:
        """Raise `Forbidden` unless the request is authorized."""
        if not self._core.authorizer(attributes_of(ask), ask.user):
            raise failures.forbidden(ask.user, ask.verb, ask.kind.resource, ask.subresource, ask.namespace, ask.name)

    def steps(self, ask: RequestInfo) -> Steps:
        """The steps of an authorized request."""
        options.check(ask.verb, ask.query, apply=ask.content_type == APPLY)
        resource = ask.kind.resource
        if (resource.group, resource.plural) in authorization.REVIEWS:
            return authorization.reviewed(self._core, ask)
        if ask.verb == "list":
            return self._reader.list(ask)
        if ask.verb == "deletecollection":
            return (yield from self._deleter.delete_collection(ask))
        answer = yield from self._handle_object(ask)
        form = form_of(ask.request.headers.get("accept", ""), ask.query)
        if form is not None and ask.verb != "delete":
            answer.body = form.object(ask.kind, answer.body, self._core.now())
        return answer

    def _handle_object(self, ask: RequestInfo) -> Steps:
        match ask.verb, ask.subresource:
            case "get", _:
                return self._reader.get(ask)
            case "create", "binding":
                return (yield from self._bind(ask))
            case "create", "eviction":
                yield from self._evictor.evict(ask)
                return self._created()
            case "create", _:
                return (yield from self._writer.create(ask))
            case "update", _:
                return (yield from self._writer.update(ask))
            case "patch", _:
                return (yield from self._writer.patch(ask))
            case "delete", _:
                return (yield from self._deleter.delete(ask))
        raise AssertionError(f"no handler for verb {ask.verb}")

    def _bind(self, ask: RequestInfo) -> Steps:
        """Bind a pod to a node."""
        binding = bodies.object_of(ask, "Binding", "v1")
        node = (binding.get("target") or {}).get("name", "")
        if not node:
            cause = failures.required("target.name")
            raise failures.unexplained(f"{cause.field}: {cause.message}")

        def bound(pod: Tree) -> Tree:
            spec = pod.get("spec") or {}
            if spec.get("nodeName"):
                sentence = f'pod {ask.name} is already assigned to node "{spec["nodeName"]}"'
                raise failures.conflict(ask.kind.resource, ask.name, sentence, ask.subresource)
            return {**pod, "spec": {**spec, "nodeName": node}}

        yield from self._writer.modify(ask, bound)
        return self._created()

    def _created(self) -> Answer:
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return Answer(encode_json(body), self._core.store.revision, 201)
