"""Tasks for secrets: persisted ones are in the ShootState before any is in the seed; all others are derived here."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import NamedTuple

from espalier.api.core import SECRET
from espalier.api.gardener.etcd import MAIN, MEMBERS
from espalier.api.gardener.garden.credentials_binding import named_credentials
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import PersistedSecret
from espalier.api.gardener.names import AGENT_SERVICE
from espalier.api.gardener.vocabulary.metadata_keys import SECRET_DIGESTS
from espalier.api.gardener.vocabulary.operations import ErrorCode, OperationType
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Wait
from espalier.runtime.controllers.writer import Precondition, found_by_owner
from espalier.shoots.etcd import names as etcd_names
from espalier.shoots.flow.task import Action, Failure, Verdict
from espalier.shoots.gardenlet import rendering
from espalier.shoots.gardenlet.comparison import digest_of
from espalier.shoots.gardenlet.context import ShootContext
from espalier.shoots.gardenlet.credentials import provider_secret
from espalier.shoots.gardenlet.names import CREDENTIALS_OF, RENDERED
from espalier.shoots.gardenlet.tasks.acts import apply_object, combined
from espalier.shoots.secrets import derived, digests, names, peers, persisted
from espalier.shoots.secrets.persisted import Data

_PEERS = (
    AGENT_SERVICE,
    etcd_names.client_service(MAIN),
    *(f"{MAIN}-{member}.{MAIN}-peer" for member in range(MEMBERS)),
)
"""The names of etcd's members, and of the Services of their agents and clients, below that of their namespace."""


def generate(ctx: ShootContext) -> Verdict:
    """The ShootState has all persisted secrets, those of this shoot. A shoot that was moved never gets new ones (G6,
    G30)."""
    missing, verdict = _compared(ctx)
    if missing and ctx.operation is OperationType.RESTORE:
        what = f"has no {', '.join(missing)}" if ctx.scope.state is not None else "does not exist"
        return Failure(
            f"ShootState {ctx.live.shoot.key} {what}: a restored shoot gets no new secrets; restore it from a "
            "backup of the garden, or write into it what the Secrets in the shoot's namespace of its last seed have"
        )
    if verdict is not None or not missing:
        return verdict or Done()
    return Action(f"generate {', '.join(missing)}, into the ShootState", lambda: _generate(ctx))


def check(ctx: ShootContext) -> Verdict:
    """The ShootState has all persisted secrets; those that somebody has removed or replaced are copied from the
    seed."""
    missing, verdict = _compared(ctx)
    if lost := [name for name in missing if name not in ctx.scope.secrets]:
        return Failure(
            f"ShootState {ctx.live.shoot.key} has no {', '.join(lost)}, and neither has the seed: restore it from a "
            "backup of the garden"
        )
    return verdict or (_copy(ctx, missing) if missing else _report_digests(ctx))


class _Compared(NamedTuple):
    """The persisted secrets of a ShootState, compared with those in the seed and with what was reported."""

    missing: list[str]
    verdict: Failure | Action | None
    """About secrets that are others than were reported: the copy of those that the seed has as reported, or the failure
    about those that nobody has."""


def _compared(ctx: ShootContext) -> _Compared:
    stored, running = ctx.scope.persisted_secrets, ctx.scope.secrets_in_seed
    reported = _reported(ctx)
    missing = [name for name in names.PERSISTED if name not in stored]
    others = [
        name
        for name, digest in reported.items()
        if name in stored and stored[name] != running.get(name) and digests.of_secret(stored[name]) != digest
    ]
    replaced = [name for name in others if name in running and digests.of_secret(running[name]) == reported[name]]
    if lost := [name for name in others if name not in replaced]:
        return _Compared(missing, _other_secrets(ctx.live.shoot, lost))
    return _Compared(missing, _copy(ctx, missing, replaced) if replaced else None)


def _reported(ctx: ShootContext) -> dict[str, str]:
    """The digests that were reported of this shoot; none of one whose etcd never started: its Shoot may be a copy."""
    if ctx.scope.ownership.last_started is None:
        return {}
    digest_of = digests.parsed(ctx.live.shoot.metadata.annotations.get(SECRET_DIGESTS))
    return {name: digest for name, digest in digest_of.items() if name in names.PERSISTED}


def _other_secrets(shoot: Object, others: list[str]) -> Failure:
    fields = ", ".join(f"gardenlet.secrets[{name}]" for name in others)
    return Failure(
        f"ShootState {shoot.key}: {fields}: found another secret than its seed reported in metadata.annotations"
        f"[{SECRET_DIGESTS}] of the Shoot; restore the ShootState from a backup of the garden. If the annotation was "
        "changed, or if clients, nodes and stored objects may lose what the shoot had: kubectl annotate shoot "
        f"{shoot.name} -n {shoot.namespace} {SECRET_DIGESTS}-",
        (ErrorCode.RETRYABLE_CONFIGURATION,),
    )


def _copy(ctx: ShootContext, missing: Sequence[str], replaced: Sequence[str] = ()) -> Action:
    what = f"copy {', '.join((*missing, *replaced))} into the ShootState"
    return Action(what, lambda: _generate(ctx, replaced))


async def _generate(ctx: ShootContext, replaced: Sequence[str] = ()) -> Continue | Wait | Failure:
    scope, tools = ctx.scope, ctx.tools
    unchanged = {name: data for name, data in scope.persisted_secrets.items() if name not in replaced}
    present = {name: data for name, data in {**scope.secrets_in_seed, **unchanged}.items() if name in names.PERSISTED}
    domains = (f"api.{scope.technical_id}.{tools.config.domain}",)
    generated = persisted.generate(
        present, namespace=scope.technical_id, extra_names=domains, now=tools.clock.now(), rng=tools.rng
    )
    secrets = [_persisted_secret(name, {**present, **generated}[name]) for name in names.PERSISTED]
    ctx.live.state = await tools.states.persist(ctx.live.shoot, secrets, scope.epoch, replaced)
    return Continue()


def _persisted_secret(name: str, data: Data) -> PersistedSecret:
    return PersistedSecret(name=name, data={key: b64encode(value).decode() for key, value in data.items()})


def deploy(ctx: ShootContext) -> Verdict:
    """The persisted secrets are in the seed as they are in the ShootState, and the Shoot has their digests."""
    scope = ctx.scope
    deployed = combined(
        apply_object(ctx, SECRET, scope.secrets.get(name), rendering.secret(scope, name, data))
        for name, data in scope.persisted_secrets.items()
        if name in names.PERSISTED
    )
    return _report_digests(ctx) if isinstance(deployed, Done) else deployed


def _report_digests(ctx: ShootContext) -> Verdict:
    """The Shoot has the digests of the persisted secrets."""
    wanted = digests.reported(ctx.scope.persisted_secrets)
    if ctx.live.shoot.metadata.annotations.get(SECRET_DIGESTS) == wanted:
        return Done()

    async def report() -> Continue | Wait | Failure:
        patch = {"metadata": {"annotations": {SECRET_DIGESTS: wanted}}}
        ctx.live.shoot = await ctx.tools.garden.merge(Shoot.resource, ctx.live.shoot, patch, Precondition.UID)
        return Continue()

    return Action("report the digests of secrets", report)


def derive(ctx: ShootContext) -> Verdict:
    """All other secrets exist, are fresh, and are signed by the persisted authorities (G7)."""
    return combined((_derive(ctx), renew_peers(ctx)))


def _derive(ctx: ShootContext) -> Verdict:
    scope = ctx.scope
    present = scope.secrets_in_seed
    try:
        due = derived.outdated(scope.persisted_secrets, present, namespace=scope.technical_id, now=scope.now)
    except persisted.InvalidSecret as error:
        return Failure(
            f"ShootState {ctx.live.shoot.key}: the persisted secrets are invalid: {error}; restore it from a backup of "
            "the garden"
        )
    if not due:
        return Done()

    async def write() -> Continue | Wait | Failure:
        secrets = derived.derive(
            scope.persisted_secrets, present, namespace=scope.technical_id, now=ctx.tools.clock.now(), rng=ctx.tools.rng
        )
        for name, data in secrets.items():
            await ctx.tools.seed.apply(SECRET, rendering.secret(scope, name, data), found_by_owner)
        return Continue()

    return Action(f"derive {', '.join(due)}", write)


def renew_peers(ctx: ShootContext) -> Verdict:
    """The members of etcd have certificates, which are renewed in steps that each of them survives."""
    scope = ctx.scope
    if not peers.is_due(scope.secrets_in_seed, scope.peer_use, scope.now):
        return Done()

    async def write() -> Continue | Wait | Failure:
        changes = peers.changes(
            scope.secrets_in_seed,
            scope.peer_use,
            namespace=scope.technical_id,
            hosts=_PEERS,
            now=scope.now,
            rng=ctx.tools.rng,
        )
        for name, data in changes.write.items():
            await ctx.tools.seed.apply(SECRET, rendering.secret(scope, name, data), found_by_owner)
        for name in changes.delete:
            await ctx.tools.seed.delete(SECRET, scope.secrets[name], found_by_owner)
        return Continue()

    return Action("renew the certificates of etcd's members", write)


def skip_credentials(ctx: ShootContext) -> str:
    """The reason why there are no credentials of a provider."""
    _, name = named_credentials(ctx.scope.shoot.spec)
    return "" if name else "the shoot names no credentials of its provider"


def deploy_credentials(ctx: ShootContext) -> Verdict:
    """The user's credentials at the provider are in the seed. They are read again when the Shoot changes, or when
    somebody has edited the copy."""
    spec, generation = ctx.scope.shoot.spec, ctx.live.shoot.metadata.generation
    field, name = named_credentials(spec)
    source = f"{name}@{generation}"
    live = ctx.scope.secrets.get(names.CLOUD_PROVIDER)
    annotations = live.metadata.annotations if live is not None else {}
    if live is not None and annotations.get(CREDENTIALS_OF) == source:
        digest = digest_of(live.tree.get("data") or {})
        if annotations.get(RENDERED, digest) == digest:  # an earlier gardenlet has set none
            return Done()

    async def copy() -> Continue | Wait | Failure:
        shoot = ctx.live.shoot
        garden, named = ctx.tools.garden.client, name
        try:
            named = await provider_secret(garden, spec, shoot.namespace)
            secret = await garden.get(SECRET, named, shoot.namespace)
        except NotFound:
            through = "" if named == name else f", for Secret {named}"
            return Failure(
                f"{field}: found {name}{through}, but there is no such Secret in namespace {shoot.namespace}: "
                "create it with the provider's credentials",
                (ErrorCode.RETRYABLE_CONFIGURATION,),
            )
        except ValueError as problem:
            return Failure(f"{field}: {problem}", (ErrorCode.RETRYABLE_CONFIGURATION,))
        body = rendering.secret(ctx.scope, names.CLOUD_PROVIDER, {})
        body["data"] = secret.tree.get("data") or {}
        body["metadata"]["annotations"] = {CREDENTIALS_OF: source, RENDERED: digest_of(body["data"])}
        await ctx.tools.seed.apply(SECRET, body, found_by_owner)
        return Continue()

    return Action(f"copy the credentials of the provider that {field} {name} names", copy)
