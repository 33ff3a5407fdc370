"""Selects and calls the admission webhooks of a write, by the stored webhook configurations."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from espalier.api import core as builtin
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.access.webhooks import Result, WebhookCall, mutate, validate
from espalier.apiserver.builtin.webhook_rules import Admission, Webhook, webhooks_of
from espalier.apiserver.core.core import Core, to_served_version, to_storage_version
from espalier.apiserver.requests.requests import RequestInfo
from espalier.apiserver.schema.metadata import new_uid

_OPERATIONS = {"create": "CREATE", "update": "UPDATE", "delete": "DELETE"}


@dataclass(frozen=True, slots=True)
class _DecodedConfigurations:
    """Decoded configurations, valid while the revision of their table and the served kinds are unchanged."""

    version: tuple[int, int]
    webhooks: list[Webhook]
    matching: dict[tuple[str, Resource, str], list[Webhook]] = field(default_factory=dict)
    """The webhooks whose rules match an operation on a resource and its subresource."""


class AdmissionWebhooks:
    """Calls webhooks. Configurations are decoded again only after changes."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[Resource, _DecodedConfigurations] = {}

    def mutate(
        self, info: RequestInfo, operation: str, new: Tree | None, old: Tree | None, warnings: list[str]
    ) -> Generator[list[WebhookCall], Sequence[Result], Tree | None]:
        """The object after mutating webhooks (in its stored version); the same one if they change nothing."""
        webhooks = self._webhooks(builtin.MUTATING_WEBHOOK_CONFIGURATION, info, operation)
        if not webhooks:
            return new
        admission = self._admission(info, operation, new, old)
        admitted = yield from mutate(webhooks, admission, self._new_uid)
        warnings += admitted.warnings
        if admitted.object is admission.object or admitted.object is None:
            return new
        return to_storage_version(admitted.object, info.kind)

    def validate(
        self, info: RequestInfo, operation: str, new: Tree | None, old: Tree | None, warnings: list[str]
    ) -> Generator[list[WebhookCall], Sequence[Result], None]:
        """Raises the client's error when a validating webhook denies the write."""
        webhooks = self._webhooks(builtin.VALIDATING_WEBHOOK_CONFIGURATION, info, operation)
        if not webhooks:
            return
        admitted = yield from validate(webhooks, self._admission(info, operation, new, old), self._new_uid)
        warnings += admitted.warnings

    def _webhooks(self, configurations: Resource, info: RequestInfo, operation: str) -> list[Webhook]:
        """The webhooks that may match a write, judged without the object."""
        table = self._core.store.table(configurations.group_resource)
        if not table.keys:
            return []
        version = table.latest, self._core.registry.changed
        known = self._known.get(configurations)
        if known is None or known.version != version:
            known = _DecodedConfigurations(version, webhooks_of(table.objects[key].raw for key in table.keys))
            self._known[configurations] = known
        operation_and_resource = operation, info.kind.resource, info.subresource
        matching = known.matching.get(operation_and_resource)
        if matching is None:
            write = self._admission(info, operation, None, None)
            matching = known.matching[operation_and_resource] = [
                webhook for webhook in known.webhooks if webhook.matching_resource(write) is not None
            ]
        return matching

    def _new_uid(self) -> str:
        return new_uid(self._core.rng)

    def _admission(self, info: RequestInfo, operation: str, new: Tree | None, old: Tree | None) -> Admission:
        kind = info.kind
        return Admission(
            operation=_OPERATIONS[operation],
            resource=kind.resource,
            user=info.user,
            name=((new or old or {}).get("metadata") or {}).get("name", info.name),
            namespace=info.namespace,
            subresource=info.subresource,
            object=None if new is None else to_served_version(_visible(new), kind),
            old_object=None if old is None else to_served_version(_visible(old), kind),
            namespace_labels=self._namespace_labels(info, new or old or {}),
            equivalents=[other.resource for other in self._core.registry.versions(kind.table) if other is not kind],
            options={name: value for name, value in info.query.items() if name in ("dryRun", "fieldManager")},
            dry_run=info.dry_run,
        )

    def _namespace_labels(self, info: RequestInfo, tree: Tree) -> dict[str, str] | None:
        if info.kind.resource == builtin.NAMESPACE:
            return tree.get("metadata", {}).get("labels") or {}
        if not info.namespace:
            return None
        namespace = self._core.store.table(builtin.NAMESPACE.group_resource).objects.get(Key("", info.namespace))
        return namespace.head.metadata.labels if namespace is not None else {}


def _visible(tree: Tree) -> Tree:
    """The object as webhooks get it: without managedFields, which are large and change with every write."""
    metadata = {name: part for name, part in tree.get("metadata", {}).items() if name != "managedFields"}
    return {**tree, "metadata": metadata}
