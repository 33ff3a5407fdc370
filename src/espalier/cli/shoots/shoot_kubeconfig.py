"""A kubeconfig of a shoot: a short-lived certificate of the shoot's own authority, signed by whoever may read its keys.

The authority is in the ShootState, in the garden, so this works while the shoot's seed is lost or the shoot moves, and
what it makes survives the move: the authority does, and clients know the API server by its DNS name (decision 0209).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from urllib.parse import urlsplit

from cryptography import x509

from espalier.api import conditions as condition_list
from espalier.api.gardener.garden.shoot import API_SERVER_AVAILABLE, Shoot
from espalier.api.gardener.garden.shoot_state import PersistedSecret, ShootState
from espalier.api.resource import Key
from espalier.cli.kit import flags
from espalier.cli.kit.connecting.own_user import own_user
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import output
from espalier.cli.shoots.shoots import find
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import KeyPair
from espalier.kube.errors import Forbidden, NotFound
from espalier.runtime.clock import SystemClock
from espalier.shoots.garden.operations import has_settled, pending_tasks
from espalier.shoots.secrets import names
from espalier.shoots.secrets.persisted import Data, InvalidSecret, authority_of

ADMINISTRATORS = "system:masters"
USER = "gardener.cloud:user:"
"""Begins the user's name in the shoot; their name in the garden follows, so that audit logs of shoots have it."""
DAY = 86400.0
LEAST, MOST, DEFAULT = 600.0, DAY, 3600.0
"""Seconds of validity: as Gardener's `adminkubeconfig` allows them."""


@dataclass(frozen=True)
class Request:
    """A kubeconfig that somebody wants."""

    shoot: str
    seconds: float
    server: str
    """URL of the API server; empty for its DNS name."""

    @classmethod
    def of(cls, shoot: str, ttl: str, server: str) -> Request:
        """From flags. Raises `Usage`."""
        seconds = flags.seconds(ttl, "--ttl") if ttl else DEFAULT
        if not LEAST <= seconds <= MOST:
            raise Usage(f"--ttl: found {ttl}, allowed: from 10m to 24h")
        parts = urlsplit(server)
        if server and (parts.scheme != "https" or not parts.hostname or parts.username):
            raise Usage(f"--server: found {server!r}, allowed is https://HOST:PORT")
        return cls(shoot, seconds, server)

    async def send(self, client: Client, namespace: str) -> bytes:
        """The kubeconfig. Raises `Failure` for a shoot without keys, and for a user who may not read them. Says on
        standard error why the shoot's API server can't be reached with it now."""
        key = Key(namespace, self.shoot)
        shoot = await find(client, key)
        secrets = await _secrets(client, key, shoot.metadata.uid)
        try:
            authority = authority_of(secrets[names.CA])
            address = self.server or f"https://{_dns_name(secrets[names.KUBE_APISERVER], shoot.decode(Shoot))}"
        except KeyError as missing:
            raise Failure(f"the ShootState of shoot {key} has no secret {missing}: {_WAIT}") from None
        except InvalidSecret as error:
            raise Failure(f"the authority of shoot {key} in its ShootState is damaged: {error}") from None
        if problem := not_available(shoot.decode(Shoot)):
            output.say_wrapped(f"the API server of shoot {key} is not available now: {problem}", stderr=True)
        now = SystemClock().now()
        pair = authority.issue_client(await _user(client), groups=(ADMINISTRATORS,), now=now, days=self.seconds / DAY)
        return Kubeconfig.of_cluster(
            f"{namespace}--{self.shoot}",
            server=address,
            certificate_authority=authority.certificate,
            user="admin",
            credentials=pair,
        ).to_bytes()


_WAIT = "its control plane has not been created yet; `espalier shoots list` shows its progress"


def not_available(shoot: Shoot) -> str:
    """Why the API server of a shoot is not available, by its status; empty if it is."""
    if shoot.status.hibernated:
        return "the shoot is hibernated"
    reported = condition_list.get(shoot.status.conditions, API_SERVER_AVAILABLE)
    if reported is not None:
        return "" if reported.status == "True" else f"{reported.reason}: {reported.message}"
    return "" if has_settled(shoot) else pending_tasks(shoot)


async def _secrets(client: Client, key: Key, uid: str) -> dict[str, Data]:
    """The persisted secrets of a Shoot, which its ShootState has."""
    try:
        state = await client.get(ShootState.resource, key.name, key.namespace)
    except NotFound as error:
        if error.is_of_kind:
            raise
        raise Failure(f"there is no ShootState of shoot {key}: {_WAIT}") from None
    except Forbidden as error:
        raise Failure(
            f"the kubeconfig of shoot {key} is signed with the shoot's authority, which you may not read: {error}. "
            f"Ask an operator of the garden for a kubeconfig, or for a Role in namespace {key.namespace} that allows "
            f"`get` of shootstates.core.gardener.cloud {key.name}: whoever has it is administrator of the shoot"
        ) from None
    owners = [owner.uid for owner in state.metadata.owner_references if owner.kind == Shoot.resource.kind]
    if owners and uid not in owners:
        raise Failure(f"the ShootState of shoot {key} is of an earlier Shoot of this name: wait until it is deleted")
    return {secret.name: persisted_data(secret) for secret in state.decode(ShootState).gardenlet.secrets}


def persisted_data(secret: PersistedSecret) -> Data:
    """The content of a secret in a ShootState."""
    return {name: base64.b64decode(value) for name, value in secret.data.items()}


def _dns_name(secret: Data, shoot: Shoot) -> str:
    """The name of the API server that DNS has, among those in its certificate. It is the same in each seed."""
    try:
        certificate = KeyPair(secret[f"{names.KUBE_APISERVER}.crt"], b"").x509
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        dns_names = extension.value.get_values_for_type(x509.DNSName)
    except (KeyError, ValueError, x509.ExtensionNotFound) as error:
        raise InvalidSecret(f"the certificate of its API server can't be read: {error!r}") from None
    prefix = f"api.{shoot.status.technical_id}."
    return next((name for name in dns_names if shoot.status.technical_id and name.startswith(prefix)), dns_names[0])


async def _user(client: Client) -> str:
    """The name that the certificate has: that of the user in the garden, if its API server tells."""
    name = (await own_user(client)).name
    # An X.509 common name has at most 64 characters.
    return f"{USER}{name or 'unknown'}"[:64]
