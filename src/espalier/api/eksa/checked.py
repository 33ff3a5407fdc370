"""The result of checks against an infrastructure's API, in the status of datacenter and machine configs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from espalier.api.kinds import ATOMIC, Column, listing
from espalier.api.meta import Condition, Observed


class Checked(Observed, frozen=True):
    """Result of the checks of an object against an infrastructure's API."""

    spec_valid: Annotated[
        bool | None,
        Meta(description="True if the infrastructure has what the spec names; unset before the first check."),
    ] = None
    failure_reason: Annotated[str, Meta(description="CamelCase reason why it is invalid.")] = ""
    failure_message: Annotated[str, Meta(description="Why it is invalid, and what to do.")] = ""
    observed_generation: Annotated[int, Meta(description="Generation that was checked.")] = 0
    conditions: Annotated[
        list[Condition], Meta(description="Result of each check.", extra_json_schema=listing("type"))
    ] = []  # noqa: RUF012  (msgspec copies empty defaults)


class CheckedDatacenter(Checked, frozen=True):
    """Result of the checks of a datacenter config."""

    addresses: Annotated[
        dict[str, str],
        Meta(description="Endpoints of new clusters as CLUSTER/ADDRESS, and who uses the address; empty: unused."),
    ] = {}  # noqa: RUF012


class CheckedMachines(Checked, frozen=True):
    """Result of the checks of a machine config."""

    kubernetes_versions: Annotated[
        list[str], Meta(description="Kubernetes versions for which it was checked.", extra_json_schema=ATOMIC)
    ] = []  # noqa: RUF012


VALID = Column("Valid", ".status.specValid", "boolean", "True if the infrastructure has what the spec names")
