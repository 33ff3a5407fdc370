"""Which webhooks a server asks about a write, as its stored configurations say."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from espalier.api import core as builtin
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.core import Core, inward, outward
from espalier.apiserver.metadata import new_uid
from espalier.apiserver.requests import Ask
from espalier.apiserver.webhook_rules import Admission, Webhook, webhooks_of
from espalier.apiserver.webhooks import Result, WebhookCall, mutate, validate

_OPERATIONS = {"create": "CREATE", "update": "UPDATE", "delete": "DELETE"}


class Admitting:
    """Asks webhooks. Configurations are read again only when they changed."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[Resource, tuple[int, list[Webhook]]] = {}

    def mutate(
        self, ask: Ask, operation: str, new: Tree | None, old: Tree | None, warnings: list[str]
    ) -> Generator[list[WebhookCall], Sequence[Result], Tree | None]:
        """The object as mutating webhooks leave it (in its stored form); the same one if they change nothing."""
        webhooks = self._webhooks(builtin.MUTATING_WEBHOOK_CONFIGURATION)
        if not webhooks:
            return new
        admission = self._admission(ask, operation, new, old)
        admitted = yield from mutate(webhooks, admission, self._new_uid)
        warnings += admitted.warnings
        if admitted.object is admission.object or admitted.object is None:
            return new
        return inward(admitted.object, ask.kind)

    def validate(
        self, ask: Ask, operation: str, new: Tree | None, old: Tree | None, warnings: list[str]
    ) -> Generator[list[WebhookCall], Sequence[Result], None]:
        """Raises what the client gets when a validating webhook denies the write."""
        webhooks = self._webhooks(builtin.VALIDATING_WEBHOOK_CONFIGURATION)
        if not webhooks:
            return
        admitted = yield from validate(webhooks, self._admission(ask, operation, new, old), self._new_uid)
        warnings += admitted.warnings

    def _webhooks(self, resource: Resource) -> list[Webhook]:
        table = self._core.store.table(resource.group_resource)
        if not table.keys:
            return []
        revision, webhooks = self._known.get(resource, (-1, []))
        if revision != table.latest:
            webhooks = webhooks_of(table.objects[key].raw for key in table.keys)
            self._known[resource] = (table.latest, webhooks)
        return webhooks

    def _new_uid(self) -> str:
        return new_uid(self._core.entropy)

    def _admission(self, ask: Ask, operation: str, new: Tree | None, old: Tree | None) -> Admission:
        kind = ask.kind
        return Admission(
            operation=_OPERATIONS[operation],
            resource=kind.resource,
            user=ask.user,
            name=((new or old or {}).get("metadata") or {}).get("name", ask.name),
            namespace=ask.namespace,
            subresource=ask.subresource,
            object=None if new is None else outward(_visible(new), kind),
            old_object=None if old is None else outward(_visible(old), kind),
            namespace_labels=self._namespace_labels(ask, new or old or {}),
            equivalents=[other.resource for other in self._core.registry.versions(kind.table) if other is not kind],
            options={name: value for name, value in ask.query.items() if name in ("dryRun", "fieldManager")},
            dry_run=ask.dry_run,
        )

    def _namespace_labels(self, ask: Ask, tree: Tree) -> dict[str, str] | None:
        if ask.kind.resource == builtin.NAMESPACE:
            return tree.get("metadata", {}).get("labels") or {}
        if not ask.namespace:
            return None
        namespace = self._core.store.table(builtin.NAMESPACE.group_resource).objects.get(Key("", ask.namespace))
        return namespace.head.metadata.labels if namespace is not None else {}


def _visible(tree: Tree) -> Tree:
    """What webhooks see: not who owns which field, which is large and changes with every write."""
    metadata = {name: part for name, part in tree.get("metadata", {}).items() if name != "managedFields"}
    return {**tree, "metadata": metadata}
