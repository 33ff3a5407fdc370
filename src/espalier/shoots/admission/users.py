"""Kinds of users that admission distinguishes: operators and controllers of the garden, gardenlets, everybody else."""

from __future__ import annotations

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.gardener.names import GARDEN_NAMESPACE
from espalier.kube.transports.wire import User

OPERATORS = "system:masters"
GARDEN_ACCOUNTS = f"system:serviceaccounts:{GARDEN_NAMESPACE}"
"""The group of the garden's controllers: service accounts of its namespace."""

GARDEN_ACCOUNT = "espalier-garden"
"""The service account of `espalier garden`, in the system's namespace."""

SEEDS = "gardener.cloud:system:seeds"
"""The group of gardenlets."""

SEED_USER = "gardener.cloud:system:seed:"
"""Prefix of a gardenlet's user name; the name of its seed follows."""

MOVERS = "gardener.cloud:system:movers"
"""The group of users who may choose the seed of a shoot, besides operators."""


def is_garden(user: User) -> bool:
    """True for operators and the garden's controllers."""
    is_installed = user.name == f"system:serviceaccount:{SYSTEM_NAMESPACE}:{GARDEN_ACCOUNT}"
    return is_installed or bool({OPERATORS, GARDEN_ACCOUNTS} & set(user.groups))


def seed_of(user: User) -> str | None:
    """The seed of a gardenlet; None for others."""
    name = user.name.removeprefix(SEED_USER)
    return name if SEEDS in user.groups and name != user.name and name else None


def may_move(user: User) -> bool:
    """True for users who may choose the seed of a shoot that has one."""
    return is_garden(user) or MOVERS in user.groups
