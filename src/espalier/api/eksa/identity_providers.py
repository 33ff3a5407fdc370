"""OIDCConfig and AWSIamConfig: who may log in to a cluster, beside those with certificates and tokens."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.eksa import sentences
from espalier.api.eksa.group import GROUP, VERSION
from espalier.api.kinds import AGE, ATOMIC, MANY, Column, KubeObject, Rule, kind
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource

_TEXT = {"maxLength": 2048}
_SHORT = {"maxLength": 512}


def _same(*fields: str) -> tuple[Rule, ...]:
    """Fields of a spec that stay as they are."""
    return tuple(
        Rule(
            f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})",
            sentences.IDENTITY_CHANGED,
            f".{name}",
        )
        for name in fields
    )


class OIDCRequiredClaim(Part):
    """A claim that every token must have."""

    claim: Annotated[str, Meta(description="Name of the claim.", extra_json_schema=_SHORT)] = ""
    value: Annotated[str, Meta(description="Its value.", extra_json_schema=_SHORT)] = ""


class OIDCConfigSpec(Part):
    """How kube-apiserver judges tokens of an OpenID Connect provider. It can't be changed."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.clientId) && self.clientId != ''", sentences.NO_CLIENT, ".clientId", found="'nothing'"),
        Rule(
            "has(self.issuerUrl) && self.issuerUrl.matches('^https://[^ @]+$')",
            sentences.ISSUER,
            ".issuerUrl",
            found="has(self.issuerUrl) ? self.issuerUrl : 'nothing'",
            allowed="a URL that begins with https://",
        ),
        Rule(
            "!has(self.requiredClaims) || self.requiredClaims.size() <= 1",
            sentences.ONE_CLAIM,
            ".requiredClaims",
            found="'%d claims'.format([self.requiredClaims.size()])",
            allowed="one claim",
        ),
        *_same(
            "clientId", "issuerUrl", "usernameClaim", "usernamePrefix", "groupsClaim", "groupsPrefix", "requiredClaims"
        ),
    )

    client_id: Annotated[str, Meta(description="Client that tokens must be issued for.", extra_json_schema=_SHORT)] = ""
    issuer_url: Annotated[str, Meta(description="URL of the provider, https only.", extra_json_schema=_TEXT)] = ""
    username_claim: Annotated[
        str, Meta(description="Claim that is the name of the user; sub when it is left out.", extra_json_schema=_SHORT)
    ] = ""
    username_prefix: Annotated[
        str, Meta(description="Put before names of users; - for nothing.", extra_json_schema=_SHORT)
    ] = ""
    groups_claim: Annotated[
        str, Meta(description="Claim that has the groups of the user.", extra_json_schema=_SHORT)
    ] = ""
    groups_prefix: Annotated[str, Meta(description="Put before names of groups.", extra_json_schema=_SHORT)] = ""
    required_claims: Annotated[
        list[OIDCRequiredClaim],
        Meta(description="A claim that every token must have; one at most.", extra_json_schema=ATOMIC | MANY),
    ] = []


class OIDCConfigStatus(Observed, frozen=True):
    """Nothing is known of it beside that it is there."""


@kind(
    Resource(GROUP, VERSION, "oidcconfigs", "OIDCConfig"),
    categories=("eks-anywhere",),
    columns=(
        Column("Issuer", ".spec.issuerUrl", "string", "URL of the provider"),
        Column("Client", ".spec.clientId", "string", "Client that tokens are issued for"),
        AGE,
    ),
    status=True,
)
class OIDCConfig(KubeObject):
    """An OpenID Connect provider whose tokens the API server of a cluster takes."""

    spec: OIDCConfigSpec = msgspec.field(default_factory=OIDCConfigSpec)
    status: OIDCConfigStatus = OIDCConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (OIDCConfig,)
