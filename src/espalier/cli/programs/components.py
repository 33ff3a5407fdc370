"""The components of a manager: every program that runs one, and `espalier manifests`, is made of these declarations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.clusters import Isolation, rbac
from espalier.clusters import setup as clusters
from espalier.clusters.design.layers import LAYERS, Layer
from espalier.clusters.design.provider import Providers, infrastructures
from espalier.clusters.observe.settling import SETTLE_TIME
from espalier.kube.connection.pki import KeyPair
from espalier.releases import Uninstalled
from espalier.runtime.component import Component
from espalier.runtime.controllers.controller import RESYNC
from espalier.runtime.manager import Manager
from espalier.runtime.servers.certificates import SECRET_NAME, ServingCertificate
from espalier.runtime.servers.webhooks import Webhooks
from espalier.upgrades import setup as upgrades
from espalier.upgrades.hooks.registration import Extension


def of_manager(
    providers: Providers,
    *,
    front_end: FrontEnd = FrontEnd.ANNOTATIONS,
    isolation: Isolation = Isolation.LAYERS,
    layers: Sequence[Layer] = LAYERS,
    copies_kubeconfigs: bool = True,
    resync: float = RESYNC,
    settle_time: float = SETTLE_TIME,
    uninstalled: Uninstalled | None = None,
) -> tuple[Component, ...]:
    """The components of a manager with these settings."""
    return (
        clusters.component(
            providers=providers,
            copies_kubeconfigs=copies_kubeconfigs,
            isolation=isolation,
            layers=layers,
            front_end=front_end,
            resync=resync,
            settle_time=settle_time,
            uninstalled=uninstalled,
        ),
        upgrades.component(infrastructures=infrastructures(providers), front_end=front_end, resync=resync),
        Component("providers", kinds=tuple(kind for provider in providers.values() for kind in provider.kinds)),
    )


def certify(
    manager: Manager,
    webhooks: Webhooks,
    names: Sequence[str],
    hooks_at: Tree | None,
    secret: str = "",
    others: Sequence[Callable[[KeyPair], None]] = (),
) -> None:
    """Serve the webhooks with a certificate for these names, and have the API servers that call them trust it.

    It is that of a `secret` that somebody else writes, or one that is issued here. `others` serve with it too.

    With `hooks_at` (`{"url": …}` or `{"service": …}`), Cluster API calls the runtime hooks there.
    """
    client = manager.replica_client

    def serve(pair: KeyPair) -> None:
        for use in (webhooks.use, *others):
            use(pair)

    webhooks.certificate = ServingCertificate(
        client,
        namespace=SYSTEM_NAMESPACE,
        names=names,
        validating=[rbac.VALIDATING_WEBHOOKS],
        mutating=[rbac.MUTATING_WEBHOOKS],
        registrations=[Extension(client, hooks_at)] if hooks_at is not None else [],
        serve=serve,
        clock=manager.clock,
        secret_name=secret or SECRET_NAME,
        issued=bool(secret),
    )
