"""OIDCConfig and AWSIamConfig: identity providers of clusters, besides certificates and tokens."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.eksa.declaring import eksa_kind
from espalier.api.eksa.parts.fields import HTTPS_URLS, Text, is_https_url, same, unchanged
from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import AGE, ATOMIC, MANY, Column, KubeObject, Rule
from espalier.api.meta import Observed, Part
from espalier.api.text import patterns

_TEXT = {"maxLength": 2048}
_SHORT = {"maxLength": 512}
_FLAG = _SHORT | {"pattern": patterns.ONE_LINE}
"""A value, or part of one, of a flag of kube-apiserver."""


class OIDCRequiredClaim(Part):
    """A claim that every token must have."""

    claim: Annotated[str, Meta(description="Name of the claim.", extra_json_schema=_FLAG)] = ""
    value: Annotated[str, Meta(description="Its value.", extra_json_schema=_FLAG)] = ""


_FIRST_CLAIM = "self.requiredClaims[0].claim"


class OIDCConfigSpec(Part):
    """How kube-apiserver verifies tokens of an OpenID Connect provider. Immutable."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.clientId) && self.clientId != ''", sentences.NO_CLIENT, ".clientId", found="'nothing'"),
        Rule(
            f"has(self.issuerUrl) && {is_https_url('self.issuerUrl')}",
            sentences.ISSUER,
            ".issuerUrl",
            found="has(self.issuerUrl) ? self.issuerUrl : 'nothing'",
            allowed=HTTPS_URLS,
        ),
        Rule(
            "!has(self.requiredClaims) || self.requiredClaims.size() <= 1",
            sentences.ONE_CLAIM,
            ".requiredClaims",
            found="'%d claims'.format([self.requiredClaims.size()])",
            allowed="one claim",
        ),
        Rule(
            "!has(self.requiredClaims)"
            " || self.requiredClaims.all(one, has(one.claim) && one.claim != '' && !one.claim.contains('='))",
            sentences.CLAIM_NAME,
            ".requiredClaims",
            found=f"has({_FIRST_CLAIM}) && {_FIRST_CLAIM} != '' ? {_FIRST_CLAIM} : 'nothing'",
        ),
        *unchanged(
            sentences.IDENTITY_CHANGED,
            "clientId",
            "issuerUrl",
            "usernameClaim",
            "usernamePrefix",
            "groupsClaim",
            "groupsPrefix",
            "requiredClaims",
        ),
    )

    client_id: Annotated[str, Meta(description="Client that tokens must be issued for.", extra_json_schema=_FLAG)] = ""
    issuer_url: Annotated[str, Meta(description="URL of the provider, https only.", extra_json_schema=_TEXT)] = ""
    username_claim: Annotated[
        str, Meta(description="Claim with the user name; sub by default.", extra_json_schema=_FLAG)
    ] = ""
    username_prefix: Annotated[str, Meta(description="Prefix of user names; - for none.", extra_json_schema=_FLAG)] = ""
    groups_claim: Annotated[str, Meta(description="Claim with the groups of the user.", extra_json_schema=_FLAG)] = ""
    groups_prefix: Annotated[str, Meta(description="Prefix of group names.", extra_json_schema=_FLAG)] = ""
    required_claims: Annotated[
        list[OIDCRequiredClaim],
        Meta(description="A claim that every token must have; one at most.", extra_json_schema=ATOMIC | MANY),
    ] = []


class OIDCConfigStatus(Observed, frozen=True):
    """Empty: no status is reported."""


@eksa_kind(
    Column("Issuer", ".spec.issuerUrl", "string", "URL of the provider"),
    Column("Client", ".spec.clientId", "string", "Client that tokens are issued for"),
    AGE,
)
class OIDCConfig(KubeObject):
    """An OpenID Connect provider whose tokens the API server of a cluster accepts."""

    spec: OIDCConfigSpec = msgspec.field(default_factory=OIDCConfigSpec)
    status: OIDCConfigStatus = OIDCConfigStatus()


class MapRole(Part):
    """An AWS IAM role, and its user and groups in the cluster."""

    role_arn: Annotated[Text, Meta(description="ARN of the role.")] = msgspec.field(name="roleARN")
    username: Annotated[Text, Meta(description="Its user in the cluster.")]
    groups: Annotated[list[Text], Meta(description="Its groups in the cluster.", extra_json_schema=ATOMIC | MANY)] = []


class MapUser(Part):
    """An AWS IAM user, and its user and groups in the cluster."""

    user_arn: Annotated[Text, Meta(description="ARN of the user.")] = msgspec.field(name="userARN")
    username: Annotated[Text, Meta(description="Its user in the cluster.")]
    groups: Annotated[list[Text], Meta(description="Its groups in the cluster.", extra_json_schema=ATOMIC | MANY)] = []


BACKEND_MODES = ("CRD", "EKSConfigMap", "MountedFile")


def _complete(field: str, arn: str) -> Rule:
    """Mappings without an ARN or a user would map nobody."""
    return Rule(
        f"!has(self.{field}) || self.{field}.all(one, one.{arn} != '' && one.username != '')",
        sentences.EMPTY_MAPPING,
        f".{field}",
        found="'nothing'",
        allowed=f"{arn} and username of each",
    )


def _arns(field: str, arn: str, example: str) -> Rule:
    value, entries = f"one.{arn}", f"self.{field}"
    is_arn = f"{value} == '' || {value}.lowerAscii().startsWith('arn:')"
    return Rule(
        f"!has({entries}) || {entries}.all(one, {is_arn})",
        sentences.NO_ARN,
        f".{field}",
        found=f"{entries}.filter(one, !({is_arn}))[0].{arn}",
        allowed=f"{arn} such as {example}",
    )


class AWSIamConfigSpec(Part):
    """How AWS IAM users and roles log in. Only `mapRoles` and `mapUsers` can be changed."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("self.awsRegion != ''", sentences.NO_REGION, ".awsRegion", found="'nothing'"),
        Rule(
            f"self.backendMode.size() > 0 && self.backendMode.all(one, one in {list(BACKEND_MODES)})",
            sentences.BACKEND_MODE,
            ".backendMode",
            found="self.backendMode.size() > 0 ? self.backendMode.join(', ') : 'nothing'",
            allowed=", ".join(BACKEND_MODES),
        ),
        Rule(
            "'EKSConfigMap' in self.backendMode || (!has(self.mapRoles) || self.mapRoles.size() == 0)"
            " && (!has(self.mapUsers) || self.mapUsers.size() == 0)",
            sentences.NO_MAPPING,
            ".backendMode",
            found="self.backendMode.join(', ')",
            allowed="EKSConfigMap among others",
        ),
        *(_complete(field, arn) for field, arn in (("mapRoles", "roleARN"), ("mapUsers", "userARN"))),
        _arns("mapRoles", "roleARN", "arn:aws:iam::111122223333:role/admin"),
        _arns("mapUsers", "userARN", "arn:aws:iam::111122223333:user/ann"),
        *unchanged(sentences.IDENTITY_CHANGED, "awsRegion", "backendMode"),
        same(sentences.IDENTITY_CHANGED, "partition", "aws"),
    )

    aws_region: Annotated[str, Meta(description="AWS region, like us-west-2.", extra_json_schema=_SHORT)]
    backend_mode: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 50})]],
        Meta(description="Where mappings are stored: EKSConfigMap, CRD, MountedFile.", extra_json_schema=ATOMIC | MANY),
    ]
    map_roles: Annotated[
        list[MapRole], Meta(description="Roles that may log in.", extra_json_schema=ATOMIC | {"maxItems": 1000})
    ] = []
    map_users: Annotated[
        list[MapUser], Meta(description="Users that may log in.", extra_json_schema=ATOMIC | {"maxItems": 1000})
    ] = []
    partition: Annotated[
        str, Meta(description="AWS partition; aws by default.", extra_json_schema={"maxLength": 50})
    ] = "aws"


class AWSIamConfigStatus(Observed, frozen=True):
    """Empty: no status is reported."""


@eksa_kind(Column("Region", ".spec.awsRegion", "string", "AWS region"), AGE)
class AWSIamConfig(KubeObject, kw_only=True):
    """AWS IAM users and roles that may log in to a cluster."""

    spec: AWSIamConfigSpec
    status: AWSIamConfigStatus = AWSIamConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (OIDCConfig, AWSIamConfig)
