"""Extensions of type `local` for seeds of this process: one network, virtual machines and one record for each shoot.

They are on the library for authors (`shoots/extension`), and so as careful with leases and state as any other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from espalier.api.cloud import (
    AnyCall,
    AnyItem,
    CallCloud,
    CloudError,
    CloudRequest,
    Create,
    Credentials,
    Delete,
    ItemKind,
    ListItems,
    Network,
    Record,
    SetRecord,
    VirtualMachine,
)
from espalier.api.core import SECRET, Secret
from espalier.api.etcd.timing import Timing
from espalier.api.gardener import SHOOT_EXTENSION_KINDS, extension_backups, names
from espalier.api.gardener.dns_record import DNSRecord
from espalier.api.gardener.infrastructure import Infrastructure
from espalier.api.gardener.worker import Worker
from espalier.api.resource import Key
from espalier.kube.errors import KubeError
from espalier.kube.kubeconfig import Kubeconfig
from espalier.kube.objects import Object
from espalier.runtime.component import Component, Host
from espalier.runtime.outcome import Wait
from espalier.runtime.writer import Writer
from espalier.shoots.extension import (
    Extension,
    OperationFailed,
    Request,
    Result,
    SavedState,
    StateInvalid,
    StatelessActuator,
    controller_of,
    leases_of,
)
from espalier.shoots.secrets.names import ADMIN_KUBECONFIG
from espalier.simulator.cloud.user_data import BOOTSTRAP_KUBECONFIG

S = TypeVar("S")

TYPE = "local"
TAG = "espalier.gardener.cloud/shoot"
"""Technical ID of the shoot that something belongs to."""


class Made(msgspec.Struct, frozen=True):
    """What was made for a shoot: ids in the cloud."""

    ids: list[str]


@dataclass(frozen=True)
class Account:
    """The cloud, as one account reaches it."""

    call: CallCloud
    credentials: Credentials

    async def ask(self, request: Request[Any], call: AnyCall) -> list[AnyItem]:
        """Call the cloud, as long as the operation may go on. Raises `OperationFailed`."""
        asked = CloudRequest(self.credentials, call, request.object.kind)
        try:
            return await request.call(self.call, asked)
        except CloudError as error:
            raise OperationFailed(f"the cloud refused: {error}", reason=str(error.refusal)) from error

    async def list(self, request: Request[Any], kind: ItemKind) -> list[AnyItem]:
        """All of a kind that belong to the shoot."""
        return await self.ask(request, ListItems(kind, {TAG: request.object.namespace}))

    async def delete_all(self, request: Request[Any], kind: ItemKind) -> None:
        """Delete all of a kind that belong to the shoot."""
        for item in await self.list(request, kind):
            await self.ask(request, Delete(kind, item.id))


@dataclass(frozen=True)
class Networks(StatelessActuator[Made]):
    """Infrastructure: a network."""

    account: Account

    async def reconcile(self, request: Request[Made]) -> Result[Made] | Wait:
        """Make the network, or find it."""
        there = await self.account.list(request, "Network")
        if not there:
            namespace = request.object.namespace
            there = await self.account.ask(
                request, Create(Network(name=namespace, cidr="10.250.0.0/16", tags={TAG: namespace}))
            )
        return _made(there, {"providerStatus": {"network": there[0].id}})

    async def restore(self, request: Request[Made]) -> Result[Made] | Wait:
        """Take over the network that the state names."""
        return _made(_adopted(request, await self.account.list(request, "Network")), {})

    async def delete(self, request: Request[Made]) -> Wait | None:
        """Delete it."""
        await self.account.delete_all(request, "Network")
        return None


@dataclass(frozen=True)
class Machines(StatelessActuator[Made]):
    """Worker: `minimum` virtual machines for each pool."""

    account: Account
    domain: str

    async def reconcile(self, request: Request[Made]) -> Result[Made] | Wait:
        """Make what lacks, and delete what is too much."""
        worker, namespace = request.object.decode(Worker), request.object.namespace
        networks = await self.account.list(request, "Network")
        if not networks:
            raise OperationFailed(f"shoot {namespace} has no network: its Infrastructure makes it")
        there = {item.name: item for item in await self.account.list(request, "VirtualMachine")}
        wanted = {
            f"{namespace}-{pool.name}-{number}": pool.machine_type
            for pool in worker.spec.pools
            for number in range(pool.minimum)
        }
        for name in sorted(wanted.keys() - there.keys()):
            machine = VirtualMachine(
                name=name,
                tags={TAG: namespace},
                network=networks[0].id,
                size=wanted[name],
                image=TYPE,
                user_data=await self._user_data(request),
            )
            there[name] = (await self.account.ask(request, Create(machine)))[0]
        for name in sorted(there.keys() - wanted.keys()):
            await self.account.ask(request, Delete("VirtualMachine", there.pop(name).id))
        return _made([there[name] for name in sorted(there)], {})

    async def restore(self, request: Request[Made]) -> Result[Made] | Wait:
        """Take over the machines that the state names, then reconcile."""
        _adopted(request, await self.account.list(request, "VirtualMachine"))
        return await self.reconcile(request)

    async def delete(self, request: Request[Made]) -> Wait | None:
        """Delete them all."""
        await self.account.delete_all(request, "VirtualMachine")
        return None

    async def _user_data(self, request: Request[Made]) -> bytes:
        namespace = request.object.namespace
        secret = await request.read(SECRET, Key(namespace, ADMIN_KUBECONFIG))
        if secret is None:
            raise OperationFailed(f"Secret {namespace}/{ADMIN_KUBECONFIG} is not there: its gardenlet makes it")
        text = secret.decode(Secret).data["kubeconfig"]
        inside = Kubeconfig.parse(text).context().server
        outside = f"https://api.{namespace}.{self.domain}:443"
        file = {"path": BOOTSTRAP_KUBECONFIG, "content": text.decode().replace(inside, outside)}
        return json.dumps({"files": [file]}).encode()


@dataclass(frozen=True)
class Records(StatelessActuator[Any]):
    """DNSRecord: a record with what the spec says. An address is any word by which the seed's entry is found."""

    account: Account

    async def reconcile(self, request: Request[Any]) -> Result[Any] | Wait:
        """Make it, or change it."""
        spec, namespace = request.object.decode(DNSRecord).spec, request.object.namespace
        record = Record(name=spec.name, values=spec.values, ttl=spec.ttl or 120, tags={TAG: namespace})
        await self.account.ask(request, SetRecord(record))
        return Result()

    async def delete(self, request: Request[Any]) -> Wait | None:
        """Delete it."""
        await self.account.delete_all(request, "Record")
        return None


class Nothing(StatelessActuator[Any]):
    """What has nothing to do in this cloud."""

    async def reconcile(self, request: Request[Any]) -> Result[Any] | Wait:
        """Nothing."""
        return Result()

    async def delete(self, request: Request[Any]) -> Wait | None:
        """Nothing."""
        return None


class Entries(StatelessActuator[Any]):
    """BackupEntry: the Secret with credentials for a container, in the shoot's namespace."""

    async def reconcile(self, request: Request[Any]) -> Result[Any] | Wait:
        """Copy the Secret that the spec names."""
        spec = request.object.decode(extension_backups.BackupEntry).spec
        reference = spec.secret_ref
        given = await request.read(SECRET, Key(reference.namespace, reference.name)) if reference else None
        if given is None:
            raise OperationFailed("spec.secretRef: found no such Secret; its gardenlet copies it from the garden")
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": _secret_of(request.object), "namespace": _namespace_of(request.object)},
            "data": given.tree.get("data") or {},
        }
        try:
            await request.writer.client.apply(SECRET, body, field_manager="local-backupentry")
        except KubeError as error:
            return Wait("NoNamespace", f"namespace {_namespace_of(request.object)}: {error}", 1)
        return Result()

    async def migrate(self, object: Object, writer: Writer) -> Wait | None:
        """The Secret goes with its namespace."""
        return None

    async def delete(self, request: Request[Any]) -> Wait | None:
        """Delete the Secret; the data stay until their bucket goes."""
        secret = await request.read(SECRET, Key(_namespace_of(request.object), _secret_of(request.object)))
        if secret is not None:
            await request.writer.client.delete(SECRET, secret.name, secret.namespace, uid=secret.metadata.uid)
        return None


def _namespace_of(entry: Object) -> str:
    return names.original_backup_entry(entry.name).rpartition("--")[0]


def _secret_of(entry: Object) -> str:
    return names.SOURCE_BACKUP_SECRET if names.is_source_backup_entry(entry.name) else names.BACKUP_SECRET


def _made(items: Sequence[AnyItem], status: dict[str, Any]) -> Result[Made]:
    return Result(Made([item.id for item in items]), status)


def _adopted(request: Request[Made], there: Sequence[AnyItem]) -> Sequence[AnyItem]:
    wanted = request.state.ids if request.state is not None else []
    if missing := set(wanted) - {item.id for item in there}:
        raise StateInvalid(
            f"status.state: the cloud has no {', '.join(sorted(missing))}, and nothing is made in their place"
        )
    return there


def component(account: Account, domain: str, timing: Timing, types: Sequence[str] = (TYPE,)) -> Component:
    """The extensions of a seed. What has nothing to do is there for other `types` as well."""

    def build(host: Host) -> None:
        leases = leases_of(host, timing)
        state = SavedState(Made)
        special: dict[type[Any], tuple[Any, SavedState[Made] | None]] = {
            Infrastructure: (Networks(account), state),
            Worker: (Machines(account, domain), state),
            DNSRecord: (Records(account), None),
        }
        for kind in SHOOT_EXTENSION_KINDS:
            actuator, saved = special.get(kind, (Nothing(), None))
            for type_ in (TYPE,) if kind in special else types:
                made: Extension[Any] = Extension(kind.resource, type_, actuator, saved)
                host.manager.add(controller_of(made, host, leases, timing))
        for resource, backup in (
            (extension_backups.BackupBucket.resource, Nothing()),
            (extension_backups.BackupEntry.resource, Entries()),
        ):
            backups: Extension[Any] = Extension(resource, TYPE, backup, cluster_of=lambda _object: "")
            host.manager.add(controller_of(backups, host, leases, timing))

    return Component("extensions", build)
