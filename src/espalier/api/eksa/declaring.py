"""Declaration of EKS Anywhere's kinds: group, version, names, category and labels of all are alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from espalier.api.eksa.group import GROUP, VERSION
from espalier.api.kinds import Column, KubeObject, kind
from espalier.api.moves import MOVED
from espalier.api.resource import Resource

K = TypeVar("K", bound="type[KubeObject]")


def eksa_kind(
    *columns: Column, short_names: tuple[str, ...] = (), labels: Mapping[str, str] = MOVED
) -> Callable[[K], K]:
    """Declare a kind that has the name of its class, a status and these columns."""

    def declare(cls: K) -> K:
        name = cls.__name__
        return kind(
            Resource(GROUP, VERSION, f"{name.lower()}s", name),
            short_names=short_names,
            categories=("eks-anywhere",),
            columns=columns,
            status=True,
            labels=labels,
        )(cls)

    return declare
