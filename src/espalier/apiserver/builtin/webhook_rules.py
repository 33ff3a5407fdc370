"""Webhook configurations: decoding, matching with writes, and validation."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import Part, Tree
from espalier.api.resource import Resource
from espalier.apiserver.wire.failures import invalid, required, unsupported
from espalier.kube.errors import StatusCause
from espalier.kube.transports.wire import User

GROUP = "admissionregistration.k8s.io"
REVIEW_VERSION = "v1"
MAX_TIMEOUT = 30


@dataclass(frozen=True, slots=True)
class Admission:
    """A write that is about to happen.

    `object` is None for DELETE, `old_object` for CREATE. `namespace_labels` are those of the namespace that the object
    is in (for a Namespace: its own); None for other cluster-scoped objects. `equivalents` are the resource in its other
    served versions.
    """

    operation: str
    resource: Resource
    user: User
    name: str
    namespace: str = ""
    subresource: str = ""
    object: Tree | None = None
    old_object: Tree | None = None
    namespace_labels: Mapping[str, str] | None = None
    equivalents: Sequence[Resource] = ()
    options: Tree = field(default_factory=dict)
    dry_run: bool = False


class Rule(Part):
    """A webhook's rule: operations and resources. `*` stands for all."""

    operations: list[str] = []
    api_groups: list[str] = []
    api_versions: list[str] = []
    resources: list[str] = []
    scope: str = "*"

    def covers(self, admission: Admission, resource: Resource) -> bool:
        """True if a write of `resource` matches the rule."""
        return (
            _listed(self.operations, admission.operation)
            and _listed(self.api_groups, resource.group)
            and _listed(self.api_versions, resource.version)
            and self.scope in ("*", "Namespaced" if resource.namespaced else "Cluster")
            and any(_names(pattern, resource.plural, admission.subresource) for pattern in self.resources)
        )


class ServiceReference(Part):
    """A Service inside the cluster. A management API server on its own reaches none."""

    name: str = ""
    namespace: str = ""
    path: str = ""
    port: int = 443


class ClientConfig(Part):
    """The address of a webhook, and the CA that it is trusted by (`caBundle`, PEM)."""

    url: str = ""
    service: ServiceReference | None = None
    ca_bundle: bytes = b""


class Webhook(Part):
    """One webhook of a configuration, with the defaults of the API filled in."""

    name: str
    client_config: ClientConfig = msgspec.field(default_factory=ClientConfig)
    rules: list[Rule] = []
    failure_policy: str = "Fail"
    match_policy: str = "Equivalent"
    namespace_selector: LabelSelector = msgspec.field(default_factory=LabelSelector)
    object_selector: LabelSelector = msgspec.field(default_factory=LabelSelector)
    side_effects: str = "Unknown"
    timeout_seconds: int = 10
    reinvocation_policy: str = "Never"
    admission_review_versions: list[str] = []
    match_conditions: list[Any] = []

    def matches(self, admission: Admission) -> Resource | None:
        """The resource in whose version the webhook gets this write; None if it does not match.

        Webhook configurations themselves never match: a broken one could not be repaired.
        """
        if admission.resource.group == GROUP:
            return None
        resource = self.matching_resource(admission)
        if resource is None or not self._selects_namespace(admission) or not self._selects_object(admission):
            return None
        return resource

    def matching_resource(self, admission: Admission) -> Resource | None:
        """The resource by which the webhook's rules match this write, without selectors."""
        others = admission.equivalents if self.match_policy == "Equivalent" else ()
        return next(
            (
                resource
                for resource in (admission.resource, *others)
                if any(rule.covers(admission, resource) for rule in self.rules)
            ),
            None,
        )

    def _selects_namespace(self, admission: Admission) -> bool:
        return admission.namespace_labels is None or self.namespace_selector.selects(admission.namespace_labels)

    def _selects_object(self, admission: Admission) -> bool:
        objects = [tree for tree in (admission.object, admission.old_object) if tree is not None]
        return any(self.object_selector.selects(tree.get("metadata", {}).get("labels") or {}) for tree in objects)


class _Configuration(Part):
    webhooks: list[Webhook] = []


def webhooks_of(configurations: Iterable[bytes]) -> list[Webhook]:
    """The webhooks of encoded configurations, in the order in which they are called (give those sorted by name)."""
    decode = msgspec.json.Decoder(_Configuration).decode
    return [webhook for configuration in configurations for webhook in decode(configuration).webhooks]


def problems_of(configuration: Tree) -> list[StatusCause]:
    """Why a Validating- or MutatingWebhookConfiguration must be refused; empty when it may be stored."""
    webhooks = configuration.get("webhooks") or []
    return [cause for index, webhook in enumerate(webhooks) for cause in _problems(index, webhook)]


def _problems(index: int, tree: Tree) -> Iterator[StatusCause]:
    field_ = f"webhooks[{index}]"
    try:
        webhook = msgspec.convert(tree, Webhook)
    except msgspec.ValidationError as error:
        yield invalid(field_, tree.get("name", ""), str(error))
        return
    if webhook.name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        yield invalid(f"{field_}.name", webhook.name, detail)
    if webhook.match_conditions:
        yield invalid(
            f"{field_}.matchConditions",
            [condition.get("name", "") for condition in webhook.match_conditions],
            "this API server does not evaluate matchConditions, and ignoring them would call the webhook for "
            "writes that it excludes; remove matchConditions, or check them in the webhook",
        )
    if bool(webhook.client_config.url) == (webhook.client_config.service is not None):
        yield required(f"{field_}.clientConfig", "exactly one of url or service is required")
    elif webhook.client_config.url and not webhook.client_config.url.startswith("https://"):
        yield invalid(f"{field_}.clientConfig.url", webhook.client_config.url, "'https' is the only allowed URL scheme")
    if webhook.side_effects not in ("None", "NoneOnDryRun"):
        yield unsupported(f"{field_}.sideEffects", webhook.side_effects, ["None", "NoneOnDryRun"])
    if not 1 <= webhook.timeout_seconds <= MAX_TIMEOUT:
        limits = f"the timeout value must be between 1 and {MAX_TIMEOUT} seconds"
        yield invalid(f"{field_}.timeoutSeconds", webhook.timeout_seconds, limits)
    for name, value, allowed in (
        ("failurePolicy", webhook.failure_policy, ["Fail", "Ignore"]),
        ("matchPolicy", webhook.match_policy, ["Equivalent", "Exact"]),
        ("reinvocationPolicy", webhook.reinvocation_policy, ["IfNeeded", "Never"]),
    ):
        if value not in allowed:
            yield unsupported(f"{field_}.{name}", value, allowed)
    if REVIEW_VERSION not in webhook.admission_review_versions:
        must = f"must include at least one of {REVIEW_VERSION}"
        yield invalid(f"{field_}.admissionReviewVersions", webhook.admission_review_versions, must)


def _listed(allowed: Sequence[str], value: str) -> bool:
    return value in allowed or "*" in allowed


def _names(pattern: str, plural: str, subresource: str) -> bool:
    wanted_plural, _, wanted_subresource = pattern.partition("/")
    return wanted_plural in ("*", plural) and wanted_subresource in ("*", subresource)
