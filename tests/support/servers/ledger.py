"""A user's requests to an embedded API server, by the grants that allowed them, and the refused ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from espalier.apiserver.requests.requests import Attributes
from espalier.kube.transports.wire import User
from tests.support.servers.audit import Grant


@dataclass
class Ledger:
    """An authorizer that writes down what it is asked about one user."""

    user: User
    authorizer: Callable[[Attributes, User], bool]
    asked: set[Grant] = field(default_factory=set)
    """Verbs on resources in the namespace of the request; empty for requests about all namespaces."""
    refused: set[str] = field(default_factory=set)

    def __call__(self, attributes: Attributes, user: User) -> bool:
        allowed = self.authorizer(attributes, user)
        if user == self.user:
            resource = "/".join(filter(None, [attributes.resource, attributes.subresource]))
            grant = Grant(attributes.namespace, attributes.group, resource, attributes.verb)
            if allowed:
                self.asked.add(grant)
            else:
                self.refused.add(str(grant))
        return allowed

    def used(self, granted: Iterable[Grant]) -> set[Grant]:
        """The grants by which something was allowed."""
        return {
            grant
            for grant in granted
            if any(item[1:] == grant[1:] and grant.namespace in ("", item.namespace) for item in self.asked)
        }
