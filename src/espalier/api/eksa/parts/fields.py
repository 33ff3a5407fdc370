"""Fields that several parts of a Cluster have: references, versions, counts, labels, taints, kubelets."""

from typing import Annotated, Any

from msgspec import Meta

from espalier.api.core import Taint
from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import ATOMIC, PRESERVE, Rule
from espalier.api.meta import Part
from espalier.api.text.patterns import LABEL_NAME, LABEL_NAMES, LABEL_VALUE, LABEL_VALUES

HTTPS_URL = (
    "^https://([A-Za-z0-9_.-]+|[[][0-9A-Fa-f:]+[]])(:[0-9]{1,5})?(/([A-Za-z0-9._~!$&()*+,;=:/-]|%[0-9A-Fa-f]{2})*)?$"
)
"""A token issuer as in OpenID Connect: no user, no query, no fragment. kube-apiserver exits where it can't parse it;
between brackets it wants an IPv6 address (`is_https_url`)."""
HTTPS_URLS = "a URL that begins with https://, without user, query and fragment; in brackets an IPv6 address"


def is_https_url(field: str) -> str:
    """The condition in CEL for one."""
    return f"{field}.matches('{HTTPS_URL}') && (!{field}.contains('[') || isIP({field}.split(']')[0].split('[')[1]))"


KUBERNETES_LABEL = "^([^/]*[.])?(kubernetes|k8s)[.]io/"
"""Labels of Kubernetes itself."""

KUBELET_LABEL = (
    "^([^/]*[.])?(kubelet|node)[.]kubernetes[.]io/"
    "|^(beta[.])?kubernetes[.]io/(arch|os)$"
    "|^kubernetes[.]io/hostname$"
    "|^beta[.]kubernetes[.]io/instance-type$"
    "|^(topology|failure-domain[.]beta)[.]kubernetes[.]io/(zone|region)$"
)
"""Those that a kubelet accepts as labels of its node."""

KUBELET_LABELS = "labels below node.kubernetes.io and kubelet.kubernetes.io, or ones like topology.kubernetes.io/zone"

MOST_CONTROL_PLANES = 99
"""Machines of a control plane, and members of etcd: each write waits for a majority of them."""

LARGEST_GROUP = 100_000
"""Machines of a group, far above what a cluster can have (Kubernetes supports 5,000 nodes). It catches typing errors,
for Cluster API accepts up to 2147483647."""

SIZE_OF_CONTROL_PLANE, SIZE_OF_GROUP = {"maximum": MOST_CONTROL_PLANES}, {"maximum": LARGEST_GROUP}
"""Extra schema of such counts."""

NAME_LIMIT = {"maxLength": 253}
"""Extra schema of a name in Kubernetes, or of a host."""

Text = Annotated[str, Meta(extra_json_schema={"maxLength": 2048})]
"""An item of a list, or a value of a map."""

Labels = Annotated[
    dict[str, Annotated[str, Meta(extra_json_schema={"maxLength": 63})]],
    Meta(description="Labels of the nodes.", extra_json_schema={"maxProperties": 50}),
]
Taints = Annotated[list[Taint], Meta(description="Taints of the nodes.", extra_json_schema=ATOMIC | {"maxItems": 25})]
Kubelet = Annotated[
    dict[str, Any] | None,
    Meta(description="KubeletConfiguration of the nodes.", extra_json_schema=PRESERVE | {"maxProperties": 300}),
]


class Ref(Part):
    """Reference to an object of the same namespace."""

    kind: Annotated[str, Meta(min_length=1, description="Kind of the object.", extra_json_schema=NAME_LIMIT)]
    name: Annotated[str, Meta(min_length=1, description="Name of the object.", extra_json_schema=NAME_LIMIT)]


def keys_rule(field: str, is_bad: str, message: str, allowed: str, found: str = "{0}") -> Rule:
    """A rule about each key `k` of a map."""
    first = f"self.{field}.filter(k, {is_bad})[0]"
    rule = f"!has(self.{field}) || !self.{field}.exists(k, {is_bad})"
    return Rule(rule, message, f".{field}", found=found.format(first), allowed=allowed)


def unchanged(message: str, *fields: str) -> tuple[Rule, ...]:
    """Immutable fields of a spec."""
    return tuple(
        Rule(
            f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})",
            message,
            f".{name}",
        )
        for name in fields
    )


def same(message: str, field: str, default: str) -> Rule:
    """An immutable field of text that means its default when it is empty or missing."""
    new, old = (
        f"(has({variable}.{field}) && {variable}.{field} != '' ? {variable}.{field} : '{default}')"
        for variable in ("self", "oldSelf")
    )
    return Rule(f"{new} == {old}", message, f".{field}")


_BAD_TAINT = f"!t.key.matches('{LABEL_NAME}')"

NODE_RULES = (
    Rule(
        f"!has(self.taints) || !self.taints.exists(t, {_BAD_TAINT})",
        sentences.TAINT_KEY,
        ".taints",
        found=f"self.taints.filter(t, {_BAD_TAINT})[0].key",
        allowed=LABEL_NAMES,
    ),
    keys_rule("labels", f"!k.matches('{LABEL_NAME}')", sentences.LABEL, LABEL_NAMES),
    keys_rule(
        "labels",
        f"k.matches('{KUBERNETES_LABEL}') && !k.matches('{KUBELET_LABEL}')",
        sentences.KUBELET_LABEL,
        KUBELET_LABELS,
    ),
    keys_rule(
        "labels",
        f"!self.labels[k].matches('{LABEL_VALUE}')",
        sentences.LABEL_VALUE,
        LABEL_VALUES,
        "self.labels[{0}]",
    ),
)
"""About `taints` and `labels`."""
