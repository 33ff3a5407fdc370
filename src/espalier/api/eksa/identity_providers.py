"""OIDCConfig and AWSIamConfig: who may log in to a cluster, beside those with certificates and tokens."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.eksa import sentences
from espalier.api.eksa.fields import HTTPS_URL, HTTPS_URLS, unchanged
from espalier.api.eksa.group import GROUP, VERSION
from espalier.api.kinds import AGE, ATOMIC, MANY, Column, KubeObject, Rule, kind
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource

_TEXT = {"maxLength": 2048}
_SHORT = {"maxLength": 512}


class OIDCRequiredClaim(Part):
    """A claim that every token must have."""

    claim: Annotated[str, Meta(description="Name of the claim.", extra_json_schema=_SHORT)] = ""
    value: Annotated[str, Meta(description="Its value.", extra_json_schema=_SHORT)] = ""


class OIDCConfigSpec(Part):
    """How kube-apiserver judges tokens of an OpenID Connect provider. It can't be changed."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.clientId) && self.clientId != ''", sentences.NO_CLIENT, ".clientId", found="'nothing'"),
        Rule(
            f"has(self.issuerUrl) && self.issuerUrl.matches('{HTTPS_URL}')",
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


class MapRole(Part):
    """A role of AWS, and who it is in the cluster."""

    role_arn: Annotated[str, Meta(description="ARN of the role.")] = msgspec.field(name="roleARN")
    username: Annotated[str, Meta(description="Its user in the cluster.")]
    groups: Annotated[list[str], Meta(description="Its groups in the cluster.", extra_json_schema=ATOMIC | MANY)] = []


class MapUser(Part):
    """A user of AWS, and who it is in the cluster."""

    user_arn: Annotated[str, Meta(description="ARN of the user.")] = msgspec.field(name="userARN")
    username: Annotated[str, Meta(description="Its user in the cluster.")]
    groups: Annotated[list[str], Meta(description="Its groups in the cluster.", extra_json_schema=ATOMIC | MANY)] = []


BACKEND_MODES = ("CRD", "EKSConfigMap", "MountedFile")


class AWSIamConfigSpec(Part):
    """How users and roles of AWS log in. Only `mapRoles` and `mapUsers` can be changed."""

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
        *unchanged(sentences.IDENTITY_CHANGED, "awsRegion", "backendMode", "partition"),
    )

    aws_region: Annotated[str, Meta(description="Region of AWS, like us-west-2.", extra_json_schema=_SHORT)]
    backend_mode: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 50})]],
        Meta(description="Where mappings are kept: EKSConfigMap, CRD, MountedFile.", extra_json_schema=ATOMIC | MANY),
    ]
    map_roles: Annotated[
        list[MapRole], Meta(description="Roles that may log in.", extra_json_schema=ATOMIC | {"maxItems": 1000})
    ] = []
    map_users: Annotated[
        list[MapUser], Meta(description="Users that may log in.", extra_json_schema=ATOMIC | {"maxItems": 1000})
    ] = []
    partition: Annotated[
        str, Meta(description="Partition of AWS; aws if left out.", extra_json_schema={"maxLength": 50})
    ] = "aws"


class AWSIamConfigStatus(Observed, frozen=True):
    """Nothing is known of it beside that it is there."""


@kind(
    Resource(GROUP, VERSION, "awsiamconfigs", "AWSIamConfig"),
    categories=("eks-anywhere",),
    columns=(
        Column("Region", ".spec.awsRegion", "string", "Region of AWS"),
        AGE,
    ),
    status=True,
)
class AWSIamConfig(KubeObject, kw_only=True):
    """Users and roles of AWS that may log in to a cluster."""

    spec: AWSIamConfigSpec
    status: AWSIamConfigStatus = AWSIamConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (OIDCConfig, AWSIamConfig)
