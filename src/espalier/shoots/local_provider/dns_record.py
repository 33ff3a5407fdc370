"""DNSRecord: the names of a shoot. Changes need the lease, so that a source that lost the shoot does not reset them."""

from __future__ import annotations

from typing import cast

from espalier.api.cloud import CallCloud, Record, has_tags
from espalier.api.gardener.extensions.dns_record import DNSRecord, DNSRecordSpec
from espalier.api.gardener.vocabulary.operations import ErrorCode
from espalier.api.gardener.vocabulary.reasons import ExtensionReason
from espalier.runtime.controllers.outcome import Wait
from espalier.shoots.extension import Extension, OperationFailed, Request, Result, StatelessActuator
from espalier.shoots.local_provider.cloud import TYPE, Cloud, cloud_of

DEFAULT_TTL = 120
_TYPES = ("A", "AAAA", "CNAME", "TXT")


class DNSRecordActuator(StatelessActuator[None]):
    """Updates a record if it differs. A record of the same name without the shoot's tag is another's."""

    def __init__(self, call: CallCloud) -> None:
        self._call = call

    async def reconcile(self, request: Request[None]) -> Result[None] | Wait:
        """Have the cloud's DNS resolve the name to these values."""
        cloud, spec = await self._begin(request)
        if spec.record_type not in _TYPES or not spec.name or not spec.values:
            message = f"spec: found name {spec.name!r}, recordType {spec.record_type!r} and {len(spec.values)} values; "
            raise OperationFailed(
                f"{message}allowed: a name, one of {', '.join(_TYPES)}, and values", ErrorCode.CONFIGURATION
            )
        wanted = Record(
            name=spec.name,
            type=cast("object", spec.record_type),  # type: ignore[arg-type]  # one of them, as checked above
            values=spec.values,
            ttl=spec.ttl or DEFAULT_TTL,
            tags=cloud.tags,
        )
        present = _find(await cloud.records(), spec)
        if present is not None and not has_tags(present, cloud.tags):
            message = f"spec.name: {spec.name} has a record of another owner; allowed: a name that only this shoot uses"
            raise OperationFailed(message, ErrorCode.CONFIGURATION, reason=ExtensionReason.NAME_TAKEN)
        if present is None or (present.values, present.ttl) != (wanted.values, wanted.ttl):
            await cloud.set_record(wanted)
        return Result(status={"zone": spec.zone} if spec.zone else {})

    async def delete(self, request: Request[None]) -> Wait | None:
        """Delete the record if it still has the values of this resource: another seed may have changed it."""
        cloud, spec = await self._begin(request)
        present = _find(await cloud.records(), spec)
        if present is not None and present.values == spec.values and has_tags(present, cloud.tags):
            await cloud.delete_record(present)
        return None

    async def _begin(self, request: Request[None]) -> tuple[Cloud, DNSRecordSpec]:
        spec = request.object.decode(DNSRecord).spec
        return await cloud_of(request, self._call, spec.secret_ref, DNSRecord.resource), spec


def _find(records: list[Record], spec: DNSRecordSpec) -> Record | None:
    return next((record for record in records if (record.name, record.type) == (spec.name, spec.record_type)), None)


def extension(call: CallCloud) -> Extension[None]:
    """The extension for DNSRecord."""
    return Extension(DNSRecord.resource, TYPE, DNSRecordActuator(call))
