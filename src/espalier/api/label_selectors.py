"""`metav1.LabelSelector`, as a field of any object."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from espalier.api.meta import Part


class LabelSelectorRequirement(Part):
    """One requirement on a label."""

    key: str
    operator: str
    values: list[str] = []

    def holds(self, labels: Mapping[str, str]) -> bool:
        """True if labels match. As in Kubernetes, `NotIn` matches absent labels."""
        if self.operator == "In":
            return labels.get(self.key) in self.values
        if self.operator == "NotIn":
            return labels.get(self.key) not in self.values
        return (self.key in labels) == (self.operator == "Exists")


class LabelSelector(Part):
    """`metav1.LabelSelector`: all of it must match; an empty one selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []

    def selects(self, labels: Mapping[str, str]) -> bool:
        """True if all terms of the selector match these labels."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.holds(labels) for requirement in self.match_expressions
        )


AtomicSelector = Annotated[LabelSelector, Meta(extra_json_schema={"x-kubernetes-map-type": "atomic"})]
"""A selector that server-side apply replaces as a whole, as the kinds of Cluster API declare theirs."""
