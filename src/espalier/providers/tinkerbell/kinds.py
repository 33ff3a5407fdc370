"""TinkerbellDatacenterConfig, TinkerbellMachineConfig and TinkerbellTemplateConfig."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.eksa.checked import VALID, Checked
from espalier.api.eksa.declaring import eksa_kind
from espalier.api.eksa.parts import host_os
from espalier.api.eksa.parts.fields import (
    keys_rule,
    same,
    unchanged,
)
from espalier.api.eksa.parts.host_os import BOTTLEROCKET, REDHAT, UBUNTU, HostSettings, Users
from espalier.api.eksa.parts.hosts import LOCAL_HOSTS
from espalier.api.kinds import AGE, ATOMIC, LARGEST_INT32, MANY, Column, KubeObject, Rule, listing
from espalier.api.meta import Observed, Part
from espalier.api.text.patterns import LABEL_NAME, LABEL_NAMES, LABEL_VALUE, LABEL_VALUES

_LONG = {"maxLength": 2048}
_TEXT = {"maxLength": 512}
_NAME = {"maxLength": 253}
_FEW = {"maxItems": 16}

# Braces would be read as part of a template by Tinkerbell.
_URL = "^[A-Za-z][A-Za-z0-9+.-]*://[^/[:space:]{}]+[^[:space:]{}]*$"
_URLS = "a URL like https://images.example.com/ubuntu-1-35.gz"


DATACENTER_CHANGED = (
    "it can't be changed, because machines boot from there; create another TinkerbellDatacenterConfig for new clusters"
)
MACHINE_CHANGED = "it can't be changed; create another TinkerbellMachineConfig and reference it in machineGroupRef"

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def _url(field: str) -> Rule:
    return Rule(
        f"!has(self.{field}) || self.{field} == '' || self.{field}.matches('{_URL}')",
        "not a URL",
        f".{field}",
        found=f"self.{field}",
        allowed=_URLS,
    )


class TinkerbellDatacenterConfigSpec(Part, kw_only=True):
    """A Tinkerbell stack, and the images for bare metal."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "isIP(self.tinkerbellIP)",
            "set the IP address at which bare metal reaches Tinkerbell",
            ".tinkerbellIP",
            found="self.tinkerbellIP == '' ? 'nothing' : self.tinkerbellIP",
            allowed="an IP address",
        ),
        Rule(
            f"!self.tinkerbellIP.lowerAscii().matches('^({LOCAL_HOSTS})$')",
            "bare metal can't reach a loopback, link-local or multicast address",
            ".tinkerbellIP",
            found="self.tinkerbellIP",
            allowed="an IP address of Tinkerbell in the network of bare metal",
        ),
        *(_url(name) for name in ("osImageURL", "hookImagesURLPath", "hookIsoURL")),
        Rule(
            "!has(self.hookIsoURL) || self.hookIsoURL == '' || has(self.isoBoot) && self.isoBoot",
            "machines boot from the network; set isoBoot to true to boot from this ISO image",
            ".hookIsoURL",
            found="self.hookIsoURL",
            allowed="nothing",
        ),
        Rule(
            "!has(self.hookIsoURL) || self.hookIsoURL == '' || self.hookIsoURL.endsWith('.iso')",
            "not an ISO image",
            ".hookIsoURL",
            found="self.hookIsoURL",
            allowed="a URL that ends with .iso",
        ),
        *unchanged(DATACENTER_CHANGED, "tinkerbellIP", "hookImagesURLPath", "skipLoadBalancerDeployment"),
    )

    tinkerbell_ip: Annotated[
        str, Meta(description="Address at which bare metal reaches Tinkerbell.", extra_json_schema={"maxLength": 45})
    ] = msgspec.field(name="tinkerbellIP")
    os_image_url: Annotated[
        str,
        Meta(
            description="Operating system image of all machines. If empty, each machine config sets its own.",
            extra_json_schema=_LONG,
        ),
    ] = msgspec.field(default="", name="osImageURL")
    hook_images_url_path: Annotated[
        str,
        Meta(
            description="URL of the directory with the kernel and the initial RAM disk for network boot.",
            extra_json_schema=_LONG,
        ),
    ] = msgspec.field(default="", name="hookImagesURLPath")
    hook_iso_url: Annotated[
        str, Meta(description="URL of the ISO image that bare metal boots from.", extra_json_schema=_LONG)
    ] = msgspec.field(default="", name="hookIsoURL")
    iso_boot: Annotated[bool, Meta(description="True to boot from an ISO image instead of the network.")] = False
    load_balancer_interface: Annotated[
        str,
        Meta(description="Network interface that has Tinkerbell's address.", extra_json_schema={"maxLength": 64}),
    ] = ""
    skip_load_balancer_deployment: Annotated[
        bool, Meta(description="True if something else provides Tinkerbell's address.")
    ] = False


class TinkerbellDatacenterConfigStatus(Observed, frozen=True):
    """The status, which is empty."""


@eksa_kind(
    Column("IP", ".spec.tinkerbellIP", "string", "Address of Tinkerbell"),
    Column("Image", ".spec.osImageURL", "string", "Operating system of all machines", 1),
    AGE,
)
class TinkerbellDatacenterConfig(KubeObject, kw_only=True):
    """The Tinkerbell stack that the machines of a cluster boot from."""

    spec: TinkerbellDatacenterConfigSpec
    status: TinkerbellDatacenterConfigStatus = TinkerbellDatacenterConfigStatus()


_OPERATOR = f"self.operator in {list(OPERATORS)}"
_WITH_VALUES = "self.operator in ['In', 'NotIn']"


class Requirement(Part):
    """A requirement for one label of Hardware."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.key.matches('{LABEL_NAME}')",
            "not a valid label name",
            ".key",
            found="self.key == '' ? 'nothing' : self.key",
            allowed=LABEL_NAMES,
        ),
        Rule(_OPERATOR, "not a valid operator", ".operator", found="self.operator", allowed=", ".join(OPERATORS)),
        Rule(
            f"!({_OPERATOR}) || ({_WITH_VALUES}) == (has(self.values) && self.values.size() > 0)",
            "In and NotIn require values, Exists and DoesNotExist allow none",
            ".values",
            found="has(self.values) ? '%s with %d values'.format([self.operator, self.values.size()]) : self.operator",
        ),
    )

    key: Annotated[str, Meta(description="Name of the label.", extra_json_schema={"maxLength": 317})]
    operator: Annotated[
        str, Meta(description="In, NotIn, Exists or DoesNotExist.", extra_json_schema={"maxLength": 64})
    ]
    values: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"maxLength": 63})]],
        Meta(description="Values of the label.", extra_json_schema=ATOMIC | _FEW),
    ] = []


Matched = Annotated[
    dict[str, Annotated[str, Meta(extra_json_schema={"maxLength": 63})]],
    Meta(description="Labels and their values.", extra_json_schema={"maxProperties": 16}),
]


class LabelSelector(Part):
    """Labels that Hardware must have, all of them."""

    match_labels: Matched = {}
    match_expressions: Annotated[
        list[Requirement], Meta(description="Requirements for single labels.", extra_json_schema=ATOMIC | _FEW)
    ] = []


class HardwareAffinityTerm(Part):
    """Hardware with these labels."""

    label_selector: Annotated[LabelSelector, Meta(description="Labels of the Hardware.")]


class WeightedHardwareAffinityTerm(Part):
    """A preference for Hardware with certain labels."""

    weight: Annotated[
        int, Meta(description="Weight of the preference.", extra_json_schema={"minimum": 1, "maximum": 100})
    ]
    hardware_affinity_term: Annotated[HardwareAffinityTerm, Meta(description="The Hardware.")]


class HardwareAffinity(Part):
    """Selection of Hardware for machines, and preferences among it."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.required.size() > 0",
            "select Hardware for the machines; preferred terms only rank it",
            ".required",
            found="'nothing'",
            allowed="at least one term",
        ),
    )

    required: Annotated[
        list[HardwareAffinityTerm],
        Meta(
            description="Terms that select Hardware for machines; one must match.",
            extra_json_schema=ATOMIC | _FEW,
        ),
    ]
    preferred: Annotated[
        list[WeightedHardwareAffinityTerm],
        Meta(description="Terms that rank the selected Hardware.", extra_json_schema=ATOMIC | _FEW),
    ] = []


class TemplateRef(Part):
    """A TinkerbellTemplateConfig; empty means none, as in manifests that EKS Anywhere generates."""

    kind: Annotated[str, Meta(description="TinkerbellTemplateConfig.", extra_json_schema={"maxLength": 63})] = ""
    name: Annotated[str, Meta(description="Name of the object.", extra_json_schema=_NAME)] = ""


_SELECTED = "(has(self.hardwareSelector) && self.hardwareSelector.size() > 0)"


class TinkerbellMachineConfigSpec(Part, kw_only=True):
    """Selection of bare metal for machines, and the operating system to install."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"{_SELECTED} || has(self.hardwareAffinity)",
            "select Hardware for the machines, by a label like type: worker",
            ".hardwareSelector",
            found="'nothing'",
            allowed="one label with its value, or hardwareAffinity",
        ),
        Rule(
            f"!({_SELECTED} && has(self.hardwareAffinity))",
            "hardwareSelector and hardwareAffinity exclude each other; remove one",
            ".hardwareSelector",
            found="'both'",
            allowed="hardwareSelector or hardwareAffinity",
        ),
        Rule(
            "!has(self.hardwareSelector) || self.hardwareSelector.size() <= 1",
            "only one label is supported; for several, use hardwareAffinity",
            ".hardwareSelector",
            found="self.hardwareSelector.size()",
            allowed="one label with its value",
        ),
        keys_rule("hardwareSelector", f"!k.matches('{LABEL_NAME}')", "not a valid label name", LABEL_NAMES),
        keys_rule(
            "hardwareSelector",
            f"!self.hardwareSelector[k].matches('{LABEL_VALUE}')",
            "not a valid label value",
            LABEL_VALUES,
            "self.hardwareSelector[{0}]",
        ),
        # Clusters with the third are refused.
        host_os.family_rule("bare metal", (UBUNTU, REDHAT, BOTTLEROCKET), (UBUNTU, REDHAT)),
        _url("osImageURL"),
        Rule(
            "!has(self.templateRef) || !has(self.templateRef.name) || self.templateRef.name == ''"
            " || has(self.templateRef.kind) && self.templateRef.kind == 'TinkerbellTemplateConfig'",
            "not a kind of workflow template",
            ".templateRef.kind",
            found="has(self.templateRef.kind) && self.templateRef.kind != '' ? self.templateRef.kind : 'nothing'",
            allowed="TinkerbellTemplateConfig",
        ),
        *host_os.settings_rules(allowed=""),
        host_os.NEEDS_USER,
        same(MACHINE_CHANGED, "osFamily", BOTTLEROCKET),
        *unchanged(MACHINE_CHANGED, "users"),
    )

    hardware_selector: Annotated[
        dict[str, Annotated[str, Meta(extra_json_schema={"maxLength": 63})]],
        Meta(
            description="Label, with its value, that selects Hardware for machines.",
            extra_json_schema={"maxProperties": 16},
        ),
    ] = {}
    hardware_affinity: Annotated[
        HardwareAffinity | None, Meta(description="Selection of Hardware by several labels.")
    ] = None
    os_family: Annotated[
        str, Meta(description="Operating system; bottlerocket if empty.", extra_json_schema={"maxLength": 64})
    ] = ""
    os_image_url: Annotated[
        str,
        Meta(description="Operating system image. Defaults to the datacenter's.", extra_json_schema=_LONG),
    ] = msgspec.field(default="", name="osImageURL")
    template_ref: Annotated[
        TemplateRef | None, Meta(description="Workflow that provisions machines, instead of the default.")
    ] = None
    users: Users = []
    host_os_configuration: HostSettings = msgspec.field(default=None, name="hostOSConfiguration")

    @property
    def os(self) -> str:
        """The operating system of the machines."""
        return self.os_family or BOTTLEROCKET

    @property
    def template(self) -> str:
        """Name of the TinkerbellTemplateConfig; empty for the default workflow."""
        return self.template_ref.name if self.template_ref is not None else ""


class HardwareOfCluster(Observed, frozen=True):
    """The result for one Cluster that uses a machine config."""

    name: Annotated[str, Meta(description="Name of the Cluster.")]
    generation: Annotated[int, Meta(description="Generation of the Cluster that was checked.")] = 0
    machines: Annotated[int, Meta(description="Machines that it requests.")] = 0
    spare: Annotated[int, Meta(description="Additional machines while others are replaced.")] = 0
    reason: Annotated[str, Meta(description="Reason in CamelCase why it must wait; empty if it need not.")] = ""
    message: Annotated[str, Meta(description="Why it must wait, and what to do.")] = ""


class TinkerbellMachineConfigStatus(Checked, frozen=True):
    """The result of checking the Hardware that a machine config selects."""

    clusters: Annotated[
        list[HardwareOfCluster],
        Meta(description="Results for the Clusters that use it.", extra_json_schema=listing("name")),
    ] = []


@eksa_kind(
    Column("OS", ".spec.osFamily", "string", "Operating system"),
    Column("Template", ".spec.templateRef.name", "string", "Workflow that provisions machines", 1),
    Column("Image", ".spec.osImageURL", "string", "Operating system image", 1),
    VALID,
    AGE,
)
class TinkerbellMachineConfig(KubeObject, kw_only=True):
    """Selection of bare metal for machines, and their operating system."""

    spec: TinkerbellMachineConfigSpec
    status: TinkerbellMachineConfigStatus = TinkerbellMachineConfigStatus()


_Lines = Annotated[list[Annotated[str, Meta(extra_json_schema=_LONG)]], Meta(extra_json_schema=ATOMIC | MANY)]
_Environment = Annotated[
    dict[str, Annotated[str, Meta(extra_json_schema={"maxLength": 65536})]],
    Meta(description="Environment variables.", extra_json_schema={"maxProperties": 100}),
]
_SECONDS = {"minimum": 0, "maximum": LARGEST_INT32}


class Action(Part):
    """A program that a workflow runs on bare metal."""

    name: Annotated[str, Meta(description="Name of the action.", extra_json_schema=_NAME)]
    image: Annotated[str, Meta(description="Image of the program.", extra_json_schema=_TEXT)]
    timeout: Annotated[int, Meta(description="Timeout in seconds.", extra_json_schema=_SECONDS)]
    command: Annotated[_Lines, Meta(description="Command, instead of the image's.")] = []
    on_timeout: Annotated[_Lines, Meta(description="Command to run after a timeout.")] = msgspec.field(
        default_factory=list, name="on-timeout"
    )
    on_failure: Annotated[_Lines, Meta(description="Command to run after a failure.")] = msgspec.field(
        default_factory=list, name="on-failure"
    )
    volumes: Annotated[_Lines, Meta(description="Directories of the machine to mount.")] = []
    environment: _Environment = {}
    pid: Annotated[str, Meta(description="PID namespace, like host.", extra_json_schema=_TEXT)] = ""


class Task(Part):
    """Actions of a workflow on one machine."""

    name: Annotated[str, Meta(description="Name of the task.", extra_json_schema=_NAME)]
    worker: Annotated[str, Meta(description="Machine that runs the actions.", extra_json_schema=_TEXT)]
    actions: Annotated[
        list[Action],
        Meta(description="Actions, in order.", extra_json_schema=ATOMIC | {"maxItems": 50}),
    ]
    volumes: Annotated[_Lines, Meta(description="Directories of the machine to mount in all actions.")] = []
    environment: _Environment = {}


class Workflow(Part):
    """A workflow in Tinkerbell's format."""

    name: Annotated[str, Meta(description="Name of the workflow.", extra_json_schema=_NAME)]
    id: Annotated[str, Meta(description="ID of the workflow.", extra_json_schema=_NAME)]
    version: Annotated[str, Meta(description="Version of its format: 0.1.", extra_json_schema={"maxLength": 32})]
    global_timeout: Annotated[
        int, Meta(description="Timeout of the workflow in seconds.", extra_json_schema=_SECONDS)
    ] = msgspec.field(name="global_timeout")
    tasks: Annotated[list[Task], Meta(description="Tasks, in order.", extra_json_schema=ATOMIC | {"maxItems": 10})]


class TinkerbellTemplateConfigSpec(Part):
    """A workflow that provisions bare metal."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.template.tasks.size() > 0 && self.template.tasks.all(task, task.actions.size() > 0)",
            "each task needs at least one action",
            ".template.tasks",
            allowed="tasks with actions",
        ),
    )

    template: Annotated[Workflow, Meta(description="The workflow.")]


class TinkerbellTemplateConfigStatus(Observed, frozen=True):
    """The status, which is empty."""


@eksa_kind(Column("Workflow", ".spec.template.name", "string", "Name of the workflow"), AGE)
class TinkerbellTemplateConfig(KubeObject, kw_only=True):
    """A workflow that provisions bare metal, instead of the default."""

    spec: TinkerbellTemplateConfigSpec
    status: TinkerbellTemplateConfigStatus = TinkerbellTemplateConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (TinkerbellDatacenterConfig, TinkerbellMachineConfig, TinkerbellTemplateConfig)
