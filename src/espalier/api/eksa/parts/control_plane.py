"""The control plane of a Cluster: its API server, and its etcd."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.eksa.parts.fields import (
    HTTPS_URLS,
    NAME_LIMIT,
    NODE_RULES,
    SIZE_OF_CONTROL_PLANE,
    Kubelet,
    Labels,
    Ref,
    Taints,
    Text,
    is_https_url,
    keys_rule,
)
from espalier.api.eksa.parts.health_checks import MachineHealthCheck
from espalier.api.eksa.parts.rollouts import ControlPlaneUpgradeRolloutStrategy
from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import ATOMIC, MANY, Rule
from espalier.api.meta import Part

FLAG = "^[a-z0-9]+(-[a-z0-9]+)*$"
LONGEST_POLICY = 256 * 1024
"""Characters of an audit policy: that of Kubernetes' own clusters has 10,000, and an object has room for 1.5 MB."""

FLAGS = "a name like audit-log-maxage"

LONGEST_FLAG = 32 * 1024
"""Characters of a flag's value: Linux takes arguments of 128 KiB."""

_DNS_NAME = "^([*][.])?[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$"


class Endpoint(Part):
    """Address of the API server."""

    host: Annotated[str, Meta(description="Address or DNS name, with a port if it is not the default.")]


class ControlPlaneConfiguration(Part):
    """The control plane."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *NODE_RULES,
        keys_rule("apiServerExtraArgs", f"!k.matches('{FLAG}')", sentences.NO_FLAG, FLAGS),
        Rule(
            "self.count >= 3 || !has(self.upgradeRolloutStrategy) || !has(self.upgradeRolloutStrategy.rollingUpdate)"
            " || self.upgradeRolloutStrategy.rollingUpdate.maxSurge > 0",
            sentences.NO_SUCCESSOR,
            ".upgradeRolloutStrategy.rollingUpdate.maxSurge",
            found="0",
            allowed="1",
        ),
        Rule(
            f"!has(self.certSans) || self.certSans.all(name, isIP(name) || name.matches('{_DNS_NAME}'))",
            sentences.CERTIFICATE_NAME,
            ".certSans",
            found=f"self.certSans.filter(name, !isIP(name) && !name.matches('{_DNS_NAME}'))[0]",
            allowed="an IP address or a DNS name",
        ),
    )

    count: Annotated[
        int,
        Meta(
            ge=1, description="Number of machines; odd when etcd runs on them.", extra_json_schema=SIZE_OF_CONTROL_PLANE
        ),
    ]
    endpoint: Annotated[Endpoint | None, Meta(description="Address of the API server; not for Docker.")] = None
    machine_group_ref: Annotated[Ref | None, Meta(description="Machine config of the machines; not for Docker.")] = None
    taints: Taints = []
    labels: Labels = {}
    cert_sans: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 253})]],
        Meta(
            description="Additional names and addresses in the API server's certificate.",
            extra_json_schema=ATOMIC | MANY,
        ),
    ] = msgspec.field(default_factory=list, name="certSans")
    api_server_extra_args: Annotated[
        dict[str, Annotated[str, Meta(extra_json_schema={"maxLength": LONGEST_FLAG})]],
        Meta(description="Flags of kube-apiserver, without leading dashes.", extra_json_schema={"maxProperties": 100}),
    ] = {}
    kubelet_configuration: Kubelet = None
    audit_policy_content: Annotated[
        str, Meta(description="Audit policy of kube-apiserver, as YAML.", max_length=LONGEST_POLICY)
    ] = ""
    skip_admission_for_system_resources: Annotated[
        bool | None, Meta(description="True if admission plugins skip system resources.")
    ] = None
    skip_load_balancer_deployment: Annotated[
        bool, Meta(description="True if no load balancer is deployed for the control plane.")
    ] = False
    machine_health_check: Annotated[
        MachineHealthCheck | None, Meta(description="When machines of the control plane count as unhealthy.")
    ] = None
    upgrade_rollout_strategy: Annotated[
        ControlPlaneUpgradeRolloutStrategy | None, Meta(description="How the control plane is upgraded.")
    ] = None


class PodIAMConfig(Part):
    """IAM roles for service accounts."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.serviceAccountIssuer != ''",
            sentences.NO_ISSUER,
            ".serviceAccountIssuer",
            found="'nothing'",
            allowed=HTTPS_URLS,
        ),
        Rule(
            f"self.serviceAccountIssuer == '' || {is_https_url('self.serviceAccountIssuer')}",
            sentences.POD_IAM_ISSUER,
            ".serviceAccountIssuer",
            found="self.serviceAccountIssuer",
            allowed=HTTPS_URLS,
        ),
    )

    service_account_issuer: Annotated[str, Meta(description="Issuer of service account tokens, an https URL.")]


class ExternalEtcdConfiguration(Part):
    """External etcd."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("self.count % 2 == 1", sentences.ETCD_EVEN, ".count", found="self.count", allowed="1, 3, 5, …"),
    )

    count: Annotated[int, Meta(ge=1, description="Number of machines; odd.", extra_json_schema=SIZE_OF_CONTROL_PLANE)]
    machine_group_ref: Annotated[Ref | None, Meta(description="Machine config of the machines.")] = None


class KeyManagementService(Part):
    """A KMS plugin for the API server."""

    name: Annotated[str, Meta(description="Name of the plugin.", extra_json_schema=NAME_LIMIT)]
    socket_listen_address: Annotated[Text, Meta(description="Socket of the plugin, unix:///….")]
    cachesize: Annotated[int | None, Meta(description="Number of cached keys.")] = None
    timeout: Annotated[Text, Meta(description="Timeout of a call, like 3s.")] = ""


class EtcdEncryptionProvider(Part):
    """An encryption provider."""

    kms: Annotated[KeyManagementService, Meta(description="A KMS plugin.")]


class EtcdEncryption(Part):
    """Resources that are encrypted in etcd, and their encryption providers."""

    providers: Annotated[
        list[EtcdEncryptionProvider], Meta(description="Encryption providers.", extra_json_schema=ATOMIC | MANY)
    ]
    resources: Annotated[list[Text], Meta(description="Resources to encrypt.", extra_json_schema=ATOMIC | MANY)]
