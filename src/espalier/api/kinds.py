"""One declaration per kind: `@kind(Resource(...), …)` on a struct gives the Python type, its coordinates and its CRD.

@kind(Resource("anywhere.eks.amazonaws.com", "v1alpha1", "clusters", "Cluster"), short_names=("eksac",), status=True)
class Cluster(KubeObject):
    spec: ClusterSpec
    status: ClusterStatus = ClusterStatus()
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec

from espalier.api.meta import ObjectMeta, Part
from espalier.api.resource import Resource

K = TypeVar("K", bound="type[KubeObject]")


class Column(NamedTuple):
    """One column of `kubectl get`. `priority` 0 is always shown, 1 only with `-o wide`."""

    name: str
    json_path: str
    type: str = "string"
    description: str = ""
    priority: int = 0


AGE = Column("Age", ".metadata.creationTimestamp", "date")


class Scale(NamedTuple):
    """Paths of the scale subresource."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ".status.selector"


class Rule(NamedTuple):
    """A CEL rule (`x-kubernetes-validations`) over a struct's own fields: those in its `validations` class variable.

    `field` is the path, from the struct, of the invalid field, with a leading dot. `found` is an expression for its
    value; it, and what is allowed (a text, or `allows`: an expression), follow the message, as in `Violation`.
    `creation`: the rule also applies to creation; `oldSelf` is optional then.
    """

    rule: str
    message: str
    field: str = ""
    found: str = ""
    allowed: str = ""
    allows: str = ""
    creation: bool = False


MANY = {"maxItems": 100}
"""Limits far above any real use: Kubernetes estimates the cost of a CRD's rules from them."""

HALVES = tuple([*range(start, start + MANY["maxItems"] // 2)] for start in (0, MANY["maxItems"] // 2))
"""Indexes of a list of so many items, for rules that compare all pairs: the CEL library of the embedded server stops
after 10,000 iterations, and Kubernetes does not estimate the length of computed lists."""


def distinct(items: str, name: str) -> tuple[str, str]:
    """CEL for a list of at most `MANY` items: a rule that each `name` (of item `{0}`) is unique; a duplicate name."""
    first, second = HALVES
    item, other_item = (f"{items}[{place}]" for place in ("i", "j"))
    once = f"{items}.exists_one(h, {name.format(item)} == {name.format('h')})"
    other = f"(j >= size({items}) || i == j || {name.format(item)} != {name.format(other_item)})"
    rule = (
        f"{first}.all(i, i >= size({items}) || {once})"
        f" && {second}.all(i, i >= size({items}) || {second}.all(j, {other}))"
    )
    places = (
        f"({first}.filter(i, i < size({items}) && !{once})"
        f" + {second}.filter(i, i < size({items}) && !{second}.all(j, {other})))"
    )
    return rule, f"{places}.map(i, {name.format(item)})[0]"


class Declaration(msgspec.Struct, frozen=True):
    """The CRD of a kind, except its schema."""

    resource: Resource
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    status: bool = False
    scale: Scale | None = None
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    partly: bool = False

    @property
    def singular(self) -> str:
        """The singular resource name: the kind in lower case, as Kubernetes has it."""
        return self.resource.kind.lower()


class KubeObject(Part):
    """Base of typed objects: `apiVersion`, `kind` and `metadata`; subclasses add `spec`, `status` and the like.

    `api_version` and `kind` fill themselves from the declaration of the class.
    """

    resource: ClassVar[Resource]
    declaration: ClassVar[Declaration]

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    def __post_init__(self) -> None:
        # Not field defaults: `omit_defaults` would leave them out on the wire.
        self.api_version = self.api_version or self.resource.api_version
        self.kind = self.kind or self.resource.kind


def kind(
    resource: Resource,
    *,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    columns: tuple[Column, ...] = (),
    status: bool = False,
    scale: Scale | None = None,
    labels: Mapping[str, str] | None = None,
    partly: bool = False,
) -> Callable[[K], K]:
    """Declare that a struct is the kind served as `resource`. `status` and `scale` say which subresources it has.

    `partly` is for kinds of other projects that are typed as far as we use them: their CRD keeps unknown fields.
    """
    declaration = Declaration(resource, short_names, categories, columns, status, scale, labels or {}, partly)

    def declare(cls: K) -> K:
        cls.resource = resource
        cls.declaration = declaration
        return cls

    return declare


@dataclass(frozen=True)
class KindsOf:
    """The parts that kinds of a group and version have in common. A call declares a kind, named as its class is."""

    group: str
    version: str
    categories: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    status: bool = False
    partly: bool = False

    def __call__(
        self,
        *columns: Column,
        plural: str = "",
        short_names: tuple[str, ...] = (),
        categories: tuple[str, ...] | None = None,
        labels: Mapping[str, str] | None = None,
        status: bool | None = None,
        scale: Scale | None = None,
        namespaced: bool = True,
    ) -> Callable[[K], K]:
        """Declare a class as a kind with these columns. The plural ends with `s` unless it is given."""

        def declare(cls: K) -> K:
            name = cls.__name__
            return kind(
                Resource(self.group, self.version, plural or f"{name.lower()}s", name, namespaced=namespaced),
                short_names=short_names,
                categories=self.categories if categories is None else categories,
                columns=columns,
                status=self.status if status is None else status,
                scale=scale,
                labels=self.labels if labels is None else labels,
                partly=self.partly,
            )(cls)

        return declare


def listing(*keys: str, kind: str = "map") -> dict[str, Any]:
    """Extra schema of a list: items are merged by `keys` (map), or are a set, or are replaced as a whole (atomic)."""
    extra: dict[str, Any] = {"x-kubernetes-list-type": kind}
    if keys:
        extra["x-kubernetes-list-map-keys"] = list(keys)
    return extra


ATOMIC = listing(kind="atomic")
"""Extra schema of a list that is replaced as a whole."""

PRESERVE: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
"""Extra schema of an object whose fields are not all declared: the server keeps unknown fields."""

LARGEST_INT32 = 2**31 - 1
"""Integer of many fields of Kubernetes and Cluster API: counts, seconds."""

INT_OR_STRING: dict[str, Any] = {"x-kubernetes-int-or-string": True}
"""Extra schema of a number or a percentage."""
