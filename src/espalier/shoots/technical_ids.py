"""The index of Shoots by technical ID."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api.gardener.garden.shoot import Shoot
from espalier.kube.objects import Object

BY_TECHNICAL_ID = "technical ID"


def technical_ids(shoot: Object) -> Iterable[str]:
    """Index: the technical ID in the status. It is written before anything of the shoot is in a seed."""
    technical_id = shoot.decode(Shoot).status.technical_id
    return (technical_id,) if technical_id else ()
