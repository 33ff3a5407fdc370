"""The result of checks against an infrastructure's API, in the status of datacenter and machine configs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from espalier.api.kinds import ATOMIC, Column, listing
from espalier.api.meta import Condition, Observed


class Checked(Observed, frozen=True):
    """What an infrastructure's API said of an object."""

    spec_valid: Annotated[
        bool | None, Meta(description="True if the infrastructure has what the spec names; not set before a check.")
    ] = None
    failure_reason: Annotated[str, Meta(description="CamelCase word for why it is not valid.")] = ""
    failure_message: Annotated[str, Meta(description="Why it is not valid, and what to do.")] = ""
    observed_generation: Annotated[int, Meta(description="Generation that was checked.")] = 0
    conditions: Annotated[
        list[Condition], Meta(description="Result of each check.", extra_json_schema=listing("type"))
    ] = []  # noqa: RUF012  (msgspec copies empty defaults)


class CheckedDatacenter(Checked, frozen=True):
    """What it said of a datacenter."""

    addresses: Annotated[
        dict[str, str],
        Meta(description="Endpoints of new clusters as CLUSTER/ADDRESS, and who has the address; empty: it is free."),
    ] = {}  # noqa: RUF012


class CheckedMachines(Checked, frozen=True):
    """What it said of a machine config."""

    kubernetes_versions: Annotated[
        list[str], Meta(description="Kubernetes versions for which it was checked.", extra_json_schema=ATOMIC)
    ] = []  # noqa: RUF012


VALID = Column("Valid", ".status.specValid", "boolean", "True if the infrastructure has what the spec names")
