"""A local environment in one process on a simulated clock: API server, controllers, admission, simulated machines."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from espalier.api.capi.runtime import ExtensionConfig
from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from espalier.api.core import NAMESPACE as NAMESPACES
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.apiserver.access.rbac import Rbac
from espalier.apiserver.access.webhooks import CallFailed, WebhookCall
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore, Store
from espalier.cli.install import manifests
from espalier.cli.kit.hints import hint
from espalier.cli.local.environment.management import make_record
from espalier.cli.local.images.upgrader_images import UpgraderImages
from espalier.cli.programs import components
from espalier.cli.programs.installation import InstallReleases
from espalier.cli.programs.manager_task import ManagerTask
from espalier.clusters import Isolation
from espalier.clusters.design.layers import LAYERS, Layer
from espalier.clusters.design.provider import Providers, infrastructures
from espalier.clusters.observe.settling import SETTLE_TIME
from espalier.kube.client import Client
from espalier.kube.rbac import trees
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import ADMIN, Transport, User
from espalier.providers.kinds import KINDS, LOCAL_DATACENTER
from espalier.providers.simulated import SIMULATED
from espalier.releases import Releases, Uninstalled
from espalier.runtime.caches.cache import Caches
from espalier.runtime.clock import Clock, LoopClock
from espalier.runtime.component import Component, assemble
from espalier.runtime.controllers.controller import RESYNC
from espalier.runtime.manager import Manager
from espalier.runtime.options import Options
from espalier.runtime.servers.webhooks import Webhooks
from espalier.runtime.workload_clusters import workload_account
from espalier.simulator import setup as simulator
from espalier.simulator.controller import Timing
from espalier.simulator.pods.controller import Pods
from espalier.simulator.pods.runtimes.process_runtime import ProcessRuntime
from espalier.simulator.workload_clusters.stores import MemoryStores, Stores
from espalier.simulator.workload_clusters.workloads import Workloads
from tests.support.environments.control_plane import READING_VERBS
from tests.support.environments.managed_clusters import EXAMPLES, GARDEN, NAMESPACE, AccountedClusters, Write
from tests.support.environments.managing import led_by
from tests.support.environments.prepared_cluster import prepare
from tests.support.environments.recording import copied
from tests.support.servers.judged_statuses import JudgedStatuses
from tests.support.servers.ledger import Ledger
from tests.support.servers.preconditions import Preconditions

__all__ = ["CALM", "EXAMPLES", "GARDEN", "MANAGER_AGENT", "NAMESPACE", "ManagedEnvironment", "managed_environment"]

IN_PROCESS = "https://espalier.internal"

IN_WORKLOAD_CLUSTERS = User(workload_account.NAME, ("system:authenticated",))
MANAGER = User("system:serviceaccount:eksa-system:espalier-controller-manager", ("system:authenticated",))

ROLES = {role.kind: role for role in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING)}

RELEASES = Releases.load()
"""Those of this build; read once, and never changed."""

CALM = 600.0
"""Simulated seconds in which whatever is going to happen has happened."""

Wrap = Callable[[Transport], Transport]


MANAGER_AGENT = "espalier"
"""User agent of the manager; the machines' controllers have another."""


@dataclass(kw_only=True)
class ManagedEnvironment(AccountedClusters):
    """A running local environment."""

    store: Store
    server: Server
    ledger: Ledger
    in_workload_clusters: list[Ledger]
    """Of the manager's account in each workload cluster."""
    webhooks: Webhooks
    managing: ManagerTask
    uninstalled: Uninstalled

    async def allow_copies(self, namespace: str) -> None:
        """Have the manager copy kubeconfigs to a namespace, as its owner does."""
        for tree in manifests.kubeconfig_copy_rights([namespace]):
            await self.client.apply(ROLES[tree["kind"]], tree)


@asynccontextmanager
async def managed_environment(
    clock: Clock,
    *,
    seed: int = 1,
    store: Store | None = None,
    stores: Stores | None = None,
    wrap: Wrap = lambda transport: transport,
    providers: Providers = SIMULATED,
    kinds: Sequence[type[KubeObject]] = (),
    front_end: FrontEnd = FrontEnd.ANNOTATIONS,
    isolation: Isolation = Isolation.LAYERS,
    layers: Sequence[Layer] = LAYERS,
    resync: float = RESYNC,
    settle_time: float = SETTLE_TIME,
    namespaces: Sequence[str] = (),
    copies_to: Sequence[str] = (NAMESPACE,),
    disks: Path | None = None,
    releases: Releases | None = None,
    before_start: Callable[[Client], Awaitable[None]] | None = None,
    timing: Timing = Timing(),  # noqa: B008  frozen
    accounts: Sequence[str] = (),
    simulates: bool = True,
    machines_of: Workloads | None = None,
) -> AsyncIterator[ManagedEnvironment]:
    """A local environment on the running loop. With `store` and `stores` of an earlier one it continues that one.

    `wrap` stands between the controllers and the API server, for faults. `providers`, `isolation`,
    `layers`, `resync`, `settle_time` and `namespaces` are the manager's; `kinds` are those of `providers` that are to
    be defined first. It has the rights that `espalier manifests` gives it: a request that needs another one fails the
    story at its end, whatever became of it.

    Kubeconfigs may be copied to the namespaces `copies_to`.

    With `before_start`, which is what happened to the management cluster before, the manager brings the releases as
    `espalier manager` does, and the story begins with its start.

    The components of these names (`accounts`) reach the management cluster by accounts of their own, which have the
    rights that the component declares and no others.

    Without `simulates` nobody acts for Cluster API, so that its kinds need not be there.

    `machines_of` are the machines of another environment, which both reach.

    With a folder for `disks` the upgrader pods of simulated nodes run there as processes, in the system's own time.
    """
    rng = random.Random(seed)

    def more() -> random.Random:
        return random.Random(rng.getrandbits(64))

    releases = releases or RELEASES
    webhooks = Webhooks(port=None)
    unguarded: set[str] = set()
    misleading: set[str] = set()

    async def call(call: WebhookCall) -> bytes:
        try:
            return webhooks.review(urlsplit(call.url).path, call.body)
        except LookupError as error:
            raise CallFailed(f"failed to call webhook: {error}") from None

    async with AsyncExitStack() as stack:
        base_store = store or MemoryStore()
        by_hooks = front_end is FrontEnd.HOOKS
        needed = (*KINDS, *kinds, *([ExtensionConfig] if by_hooks else ()))
        is_new = isinstance(base_store, MemoryStore) and not list(base_store.tables())
        is_prepared = is_new and isinstance(clock, LoopClock) and releases is RELEASES
        if is_prepared:
            copied(await _prepared(clock, seed, needed), base_store)
        ledger = Ledger(MANAGER, Rbac(base_store))
        ledgers = [ledger]
        for name in accounts:
            ledgers.append(Ledger(account(name), ledgers[-1]))
        server = Server(base_store, now=clock.now, random=more(), call_webhook=call, authorizer=ledgers[-1])
        await server.start()
        stack.push_async_callback(server.close)
        user = Client(InProcessTransport(server), user_agent="journey")

        def connected(user: User, agent: str) -> Client:
            transport = wrap(InProcessTransport(server, user))
            return Client(transport, field_manager=agent, user_agent=agent, rng=more())

        in_workload_clusters: list[Ledger] = []

        def noted(ledger: Ledger) -> Ledger:
            in_workload_clusters.append(ledger)
            return ledger

        workloads = machines_of
        if workloads is None:
            workloads = Workloads(
                clock=clock,
                rng=more(),
                stores=stores or MemoryStores(),
                listen=disks is not None,
                authorizer=lambda store: noted(Ledger(IN_WORKLOAD_CLUSTERS, Rbac(store))),
            )
            stack.push_async_callback(workloads.close)
        options = Options(namespaces=tuple(namespaces))

        def reached(kubeconfig: bytes) -> Client:
            client = workloads.connect(kubeconfig)
            client.transport = wrap(client.transport)
            return client

        manager_client = connected(MANAGER, MANAGER_AGENT)
        manager_client.transport = Preconditions(JudgedStatuses(manager_client.transport, misleading), unguarded)
        manager = Manager(
            manager_client,
            clock=clock,
            rng=more(),
            connect=reached,
            options=options,
            fill_within=120.0 if before_start is None else None,
            hint=hint,
        )
        installing = InstallReleases(manager.client, manager.caches, releases)
        made_of = components.of_manager(
            providers,
            isolation=isolation,
            layers=layers,
            front_end=front_end,
            resync=resync,
            settle_time=settle_time,
            uninstalled=installing.uninstalled,
        )
        assemble(manager, [item for item in made_of if item.name not in accounts], webhooks=webhooks)
        for component in (item for item in made_of if item.name in accounts):
            own = connected(account(component.name), MANAGER_AGENT)
            seen = Caches(own, rng=more(), options=options)
            assemble(manager, [component], webhooks=webhooks, client=own, caches=seen)
        # Cluster API and the machines have rights of their own, as if they were other programs.
        machines = connected(ADMIN, "espalier-laptop")
        caches = Caches(machines, rng=more())
        pods = None
        if disks is not None:
            pods = Pods(workloads, [ProcessRuntime(UpgraderImages(releases, disks / "images"), disks, clock)], clock)
            stack.push_async_callback(pods.close)
        simulated = simulator.component(
            workloads,
            rng=more(),
            keys=more(),
            infrastructures=infrastructures(providers).all,
            timing=timing,
            pods=pods,
        )
        if simulates:
            assemble(manager, [simulated], client=machines, caches=caches)
        if not is_prepared:
            is_still_prepared = releases is RELEASES and _is_still_prepared(base_store, needed)
            await (make_record(user, releases) if is_still_prepared else prepare(user, releases, needed))
        for namespace in namespaces:
            await user.apply(NAMESPACES, {"metadata": {"name": namespace}})
        for namespace in copies_to:
            await user.apply(NAMESPACES, {"metadata": {"name": namespace}})
        for tree in [
            *manifests.installed(providers, namespaces, front_end),
            *manifests.kubeconfig_copy_rights(copies_to),
        ]:
            if tree["kind"] in ROLES:
                await user.apply(ROLES[tree["kind"]], tree)
        for component in (item for item in made_of if item.name in accounts):
            for tree in roles(account(component.name), component, namespaces, copies_to):
                await user.apply(ROLES[tree["kind"]], tree)
        for resource, tree in manifests.webhook_configurations(IN_PROCESS, namespaces):
            await user.apply(resource, tree)
        if before_start is not None:
            await before_start(user)
            manager.prepare(installing)
        managing = await stack.enter_async_context(led_by(manager, at_once=before_start is not None))
        yield ManagedEnvironment(
            store=base_store,
            server=server,
            client=user,
            manager=manager,
            capi_objects=caches,
            workloads=workloads,
            clusters=manager.caches.of(Cluster.resource),
            providers=providers,
            ledger=ledger,
            in_workload_clusters=in_workload_clusters,
            webhooks=webhooks,
            managing=managing,
            uninstalled=installing.uninstalled,
            written=lambda: _written(server),
            calm=CALM,
        )
    ledgers += in_workload_clusters
    assert [sorted(ledger.refused) for ledger in ledgers] == [[] for _ in ledgers]
    assert not misleading, f"statuses that mislead programs that read them as kstatus does: {sorted(misleading)}"
    assert not unguarded, f"writes that name neither uid nor version of what was seen: {sorted(unguarded)}"


def account(component: str) -> User:
    """The account of a component that has one of its own."""
    return User(f"component-{component}", ("system:authenticated",))


def roles(user: User, component: Component, namespaces: Sequence[str], copies_to: Sequence[str]) -> Iterator[Tree]:
    """Roles with what a component needs, and the bindings that give them to a user."""
    rights, shared = component.rights, component.shared
    watched = (*rights.watched, *shared.watched)
    cluster_scoped = (*rights.cluster_scoped, *shared.cluster_scoped)
    cluster_wide = cluster_scoped if namespaces else (*watched, *cluster_scoped)
    granted = [
        ("Cluster", "", "all", cluster_wide),
        ("", SYSTEM_NAMESPACE, "system", (*rights.system, *shared.system)),
        *(("", namespace, "watched", watched) for namespace in namespaces),
        *(("", namespace, "copies", rights.by_owners) for namespace in copies_to),
    ]
    for scope, namespace, place, rules in granted:
        metadata = {"name": f"{user.name}-{place}"} | ({"namespace": namespace} if namespace else {})
        subject = {"kind": "User", "apiGroup": ROLE.group, "name": user.name}
        role = {"apiGroup": ROLE.group, "kind": f"{scope}Role", "name": metadata["name"]}
        yield {"kind": f"{scope}Role", "metadata": metadata, "rules": trees(rules)}
        yield {"kind": f"{scope}RoleBinding", "metadata": metadata, "roleRef": role, "subjects": [subject]}


_CHANGING = {item.group_resource for item in (NAMESPACES, Cluster.resource, LOCAL_DATACENTER.resource)}
_PREPARED: dict[tuple[object, ...], MemoryStore] = {}


async def _prepared(clock: Clock, seed: int, kinds: tuple[type[KubeObject], ...]) -> MemoryStore:
    """A management cluster to which no manager came yet, as it is at this simulated moment; made once.

    Those of different seeds are different ones: the uid of its record says which management cluster it is.
    """
    key = (clock.now(), seed, kinds)
    if key not in _PREPARED:
        store = MemoryStore()
        server = Server(store, now=clock.now, random=random.Random(seed))
        await server.start()
        await prepare(Client(InProcessTransport(server), user_agent="journey"), RELEASES, kinds)
        await server.close()
        _PREPARED[key] = store
    return _PREPARED[key]


def _is_still_prepared(base_store: Store, kinds: tuple[type[KubeObject], ...]) -> bool:
    """True if this store was prepared for these kinds, and the definitions and releases are the ones put there then.

    To apply them again would change nothing, and costs half of what the start of a manager does.
    """
    return any(
        all(
            base_store.table(table).objects.get(key) is value
            for table, content in store.tables()
            if table not in _CHANGING
            for key, value in content.objects.items()
        )
        for (_, _, prepared_for), store in _PREPARED.items()
        if prepared_for == kinds
    )


def _written(server: Server) -> Counter[Write]:
    result: Counter[Write] = Counter()
    for (verb, plural, subresource, agent), count in server.requests.items():
        if agent == MANAGER_AGENT and verb not in READING_VERBS and plural not in ("leases", "events"):
            result[verb, plural, subresource] += count
    return result
