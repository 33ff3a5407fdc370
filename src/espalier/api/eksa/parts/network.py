"""Networks of a Cluster: its own, proxies and registry mirrors."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from espalier.api.eksa.parts.fields import Text
from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import ATOMIC, MANY, PRESERVE, Rule
from espalier.api.meta import Part
from espalier.api.text import patterns

_RANGE = "a range like 192.168.0.0/16"

FAMILIES = {4: _RANGE, 6: "a range like fd00:10::/64"}
"""Allowed ranges, by IP version."""

LONGEST_SERVICE_PREFIX = {4: 29, 6: 125}
"""kube-apiserver does not start with fewer than 8 addresses for services."""


def _shorter(version: int) -> str:
    return f"/{LONGEST_SERVICE_PREFIX[version]} or a shorter prefix"


class Ranges(Part):
    """Address ranges."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.cidrBlocks) && self.cidrBlocks.size() == 1",
            sentences.ONE_RANGE,
            ".cidrBlocks",
            found="has(self.cidrBlocks) && self.cidrBlocks.size() > 0 ? self.cidrBlocks.join(', ') : 'nothing'",
            allowed=_RANGE,
        ),
        Rule(
            "!has(self.cidrBlocks) || self.cidrBlocks.size() != 1 || isCIDR(self.cidrBlocks[0])",
            sentences.RANGE,
            ".cidrBlocks",
            found="self.cidrBlocks[0]",
            allowed=_RANGE,
        ),
    )

    cidr_blocks: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 50})]],
        Meta(description="Exactly one range in CIDR notation.", extra_json_schema=ATOMIC | {"maxItems": 10}),
    ] = []


class Nodes(Part):
    """Division of the pod range among nodes."""

    cidr_mask_size: Annotated[int | None, Meta(description="Prefix length of each node's part of the pod range.")] = (
        None
    )


class ResolvConf(Part):
    """Name servers of the nodes."""

    path: Annotated[
        str,
        Meta(
            description="resolv.conf on the node that the kubelet reads.",
            extra_json_schema={"maxLength": 4096, "pattern": patterns.PATH},
        ),
    ] = ""


class Dns(Part):
    """Name resolution."""

    resolv_conf: Annotated[ResolvConf | None, Meta(description="Name servers of the nodes.")] = None


class CiliumConfig(Part):
    """CNI Cilium."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.routingMode) || self.routingMode != 'direct'"
            " || has(self.ipv4NativeRoutingCIDR) && self.ipv4NativeRoutingCIDR != ''",
            sentences.NATIVE_RANGE,
            ".ipv4NativeRoutingCIDR",
            found="'nothing'",
        ),
        *(
            Rule(
                f"!has(self.{name}) || self.{name} == '' || isCIDR(self.{name}) && {sign}self.{name}.contains(':')",
                sentences.RANGE,
                f".{name}",
                found=f"self.{name}",
                allowed=FAMILIES[version],
            )
            for version, name, sign in ((4, "ipv4NativeRoutingCIDR", "!"), (6, "ipv6NativeRoutingCIDR", ""))
        ),
        Rule(
            "!has(self.skipUpgrade) || !self.skipUpgrade"
            " || !has(self.policyEnforcementMode) || self.policyEnforcementMode == ''",
            sentences.CILIUM_IS_YOURS,
            ".policyEnforcementMode",
            found="self.policyEnforcementMode",
        ),
    )

    policy_enforcement_mode: Annotated[
        Literal["", "default", "always", "never"], Meta(description="For which pods network policies are enforced.")
    ] = ""
    egress_masquerade_interfaces: Annotated[
        str,
        Meta(
            description="Interfaces on which egress traffic is masqueraded.",
            extra_json_schema={"maxLength": 2048, "pattern": patterns.ONE_LINE},
        ),
    ] = ""
    skip_upgrade: Annotated[bool | None, Meta(description="True if Cilium is installed, but not upgraded.")] = None
    routing_mode: Annotated[
        Literal["", "default", "overlay", "direct"], Meta(description="How packets are routed between nodes.")
    ] = ""
    ipv4_native_routing_cidr: Annotated[
        str,
        Meta(
            description="Range that is routed without masquerading, for routingMode direct.",
            extra_json_schema={"maxLength": 50},
        ),
    ] = msgspec.field(default="", name="ipv4NativeRoutingCIDR")
    ipv6_native_routing_cidr: Annotated[
        str,
        Meta(
            description="IPv6 range that is routed without masquerading, for routingMode direct.",
            extra_json_schema={"maxLength": 50},
        ),
    ] = msgspec.field(default="", name="ipv6NativeRoutingCIDR")
    cni_exclusive: Annotated[
        bool | None, Meta(description="True if Cilium removes other CNI configuration from the nodes.")
    ] = None
    helm_values: Annotated[
        dict[str, Any],
        Meta(
            description="Additional values for Cilium's Helm chart.",
            extra_json_schema=PRESERVE | {"maxProperties": 100},
        ),
    ] = {}


class KindnetdConfig(Part):
    """CNI kindnetd, for Docker."""


class CNIConfig(Part):
    """The CNI: exactly one."""

    cilium: Annotated[CiliumConfig | None, Meta(description="Cilium.")] = None
    kindnetd: Annotated[KindnetdConfig | None, Meta(description="kindnetd; Docker only.")] = None


_PODS, _SERVICES = (f"self.{name}.cidrBlocks[0]" for name in ("pods", "services"))
_HAVE_PODS, _HAVE_SERVICES = (
    f"(has(self.{name}) && has(self.{name}.cidrBlocks) && self.{name}.cidrBlocks.size() == 1"
    f" && isCIDR(self.{name}.cidrBlocks[0]))"
    for name in ("pods", "services")
)
_PREFIX = "int({0}.split('/')[1])"
_POD_PREFIX, _IS_IPV6 = _PREFIX.format(_PODS), f"{_PODS}.contains(':')"
_MASK = f"(has(self.nodes) && has(self.nodes.cidrMaskSize) ? self.nodes.cidrMaskSize : {_IS_IPV6} ? 64 : 24)"
_ALL_BITS = f"({_IS_IPV6} ? 128 : 32)"
_LONGEST_MASK = f"({_POD_PREFIX} + 16 > {_ALL_BITS} ? {_ALL_BITS} : {_POD_PREFIX} + 16)"

_NAMED = "(has(self.cni) && self.cni != '')"
_CILIUM, _KINDNETD = (f"(has(self.cniConfig) && has(self.cniConfig.{name}))" for name in ("cilium", "kindnetd"))


class ClusterNetwork(Part):
    """Networks inside the cluster."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *(
            Rule(
                f"has(self.{name})",
                sentences.ONE_RANGE,
                f".{name}.cidrBlocks",
                found="'nothing'",
                allowed=_RANGE,
            )
            for name in ("pods", "services")
        ),
        Rule(
            f"!{_HAVE_PODS} || !{_HAVE_SERVICES} || {_IS_IPV6} == {_SERVICES}.contains(':')",
            sentences.ONE_FAMILY,
            ".services.cidrBlocks",
            found=_SERVICES,
            allows=f"{_IS_IPV6} ? '{FAMILIES[6]}' : '{FAMILIES[4]}'",
        ),
        Rule(
            f"!{_HAVE_SERVICES} || {_PREFIX.format(_SERVICES)} <= ({_SERVICES}.contains(':')"
            f" ? {LONGEST_SERVICE_PREFIX[6]} : {LONGEST_SERVICE_PREFIX[4]})",
            sentences.FEW_SERVICES,
            ".services.cidrBlocks",
            found=_SERVICES,
            allows=f"{_SERVICES}.contains(':') ? '{_shorter(6)}' : '{_shorter(4)}'",
        ),
        Rule(
            f"!{_HAVE_PODS} || {_POD_PREFIX} < {_MASK} && {_MASK} <= {_LONGEST_MASK}",
            sentences.NODE_MASK,
            ".nodes.cidrMaskSize",
            found=f"'%d'.format([{_MASK}])",
            allows=f"'%d to %d'.format([{_POD_PREFIX} + 1, {_LONGEST_MASK}])",
        ),
        Rule(
            f"{_NAMED} || {_CILIUM} != {_KINDNETD}",
            sentences.ONE_CNI,
            ".cniConfig",
            found=f"{_CILIUM} ? 'cilium and kindnetd' : 'nothing'",
            allowed="cilium or kindnetd",
        ),
        Rule(f"!{_NAMED} || !{_CILIUM} && !{_KINDNETD}", sentences.CNI_TWICE, ".cni", found="self.cni"),
        Rule(
            f"!{_NAMED} || {_CILIUM} || {_KINDNETD} || self.cni in ['cilium', 'cilium-enterprise', 'kindnetd']",
            sentences.CNI_UNKNOWN,
            ".cni",
            found="self.cni",
            allowed="cilium, kindnetd",
        ),
    )

    pods: Annotated[Ranges | None, Meta(description="Addresses of pods.")] = None
    services: Annotated[Ranges | None, Meta(description="Addresses of services.")] = None
    cni_config: Annotated[CNIConfig | None, Meta(description="The CNI.")] = None
    cni: Annotated[str, Meta(description="Name of the CNI. Deprecated: use cniConfig.")] = ""
    dns: Annotated[Dns | None, Meta(description="Name resolution.")] = None
    nodes: Annotated[Nodes | None, Meta(description="How the pod range is divided among nodes.")] = None


PROXY_ADDRESS = "^(https?://)?([^/@ ]+@)?[^/@ ]+:[0-9]{1,5}/?$"
"""Address of a proxy: host and port."""


class ProxyConfiguration(Part):
    """HTTP proxy of the nodes."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *(
            Rule(
                f"has(self.{name}) && self.{name} != ''",
                sentences.BOTH_PROXIES,
                f".{name}",
                found="'nothing'",
                allowed="http://proxy.example.com:3128",
            )
            for name in ("httpProxy", "httpsProxy")
        ),
        *(
            Rule(
                f"!has(self.{name}) || self.{name} == '' || self.{name}.matches('{PROXY_ADDRESS}')",
                sentences.PROXY_ADDRESS,
                f".{name}",
                found=f"self.{name}.contains('@') ? '{sentences.PROXY_WITH_USER}' : self.{name}",
                allowed="http://proxy.example.com:3128",
            )
            for name in ("httpProxy", "httpsProxy")
        ),
    )

    http_proxy: Annotated[str, Meta(description="Proxy for HTTP.", extra_json_schema={"maxLength": 1024})] = ""
    https_proxy: Annotated[str, Meta(description="Proxy for HTTPS.", extra_json_schema={"maxLength": 1024})] = ""
    no_proxy: Annotated[
        list[Text],
        Meta(
            description="Hosts and ranges that are reached without a proxy.",
            extra_json_schema=ATOMIC | {"maxItems": 1000},
        ),
    ] = []


class OCINamespace(Part):
    """Namespace of a registry's images on the mirror."""

    registry: Annotated[Text, Meta(description="The registry.")]
    namespace: Annotated[Text, Meta(description="Its namespace on the mirror.")] = ""


class RegistryMirrorConfiguration(Part):
    """Registry that images are pulled from."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.endpoint) && self.endpoint != ''",
            sentences.MIRROR_ENDPOINT,
            ".endpoint",
            found="'nothing'",
            allowed="a name or an address",
        ),
        Rule(
            "!has(self.port) || self.port == '' || self.port.matches('^[0-9]{1,5}$')"
            " && int(self.port) > 0 && int(self.port) < 65536",
            sentences.MIRROR_PORT,
            ".port",
            found="self.port",
            allowed="1 to 65535, in quotes",
        ),
    )

    endpoint: Annotated[
        str, Meta(description="Name or address of the mirror.", extra_json_schema={"maxLength": 253})
    ] = ""
    port: Annotated[
        str, Meta(description="Port of the mirror, in quotes; 443 by default.", extra_json_schema={"maxLength": 10})
    ] = ""
    oci_namespaces: Annotated[
        list[OCINamespace], Meta(description="Namespaces of registries on the mirror.", extra_json_schema=ATOMIC | MANY)
    ] = []
    ca_cert_content: Annotated[
        str, Meta(description="CA certificate of the mirror, as PEM.", extra_json_schema={"maxLength": 262144})
    ] = ""
    authenticate: Annotated[bool, Meta(description="True if the mirror requires a password.")] = False
    insecure_skip_verify: Annotated[bool, Meta(description="True if the mirror's certificate is not verified.")] = False
