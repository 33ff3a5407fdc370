"""Questions to a vCenter, and its answers. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from espalier.clusters.report.checks import questions
from espalier.providers.vsphere.server import Server

REACHABLE = "VCenterReachable"
"""Condition of what is checked: the vCenter answered."""


class ObjectType(enum.Enum):
    """A kind of inventory object: its folder in a datacenter, and its name in messages."""

    DATACENTER = ("", "datacenter")
    NETWORK = ("network", "network")
    DATASTORE = ("datastore", "datastore")
    FOLDER = ("vm", "folder")
    TEMPLATE = ("vm", "template")
    RESOURCE_POOL = ("host", "resource pool")
    COMPUTE_CLUSTER = ("host", "compute cluster")

    def __init__(self, section: str, label: str) -> None:
        self.section = section
        self.label = label


class Question(NamedTuple):
    """Asks for inventory objects at a path, or with a name anywhere in the datacenter. `*` is a wildcard."""

    object_type: ObjectType
    datacenter: str
    name: str

    @property
    def path(self) -> str:
        """The absolute path, as a pattern; empty for a name that may be in any folder."""
        datacenter = f"/{self.datacenter.strip('/')}"
        if self.object_type is ObjectType.DATACENTER:
            return datacenter
        if self.name.startswith("/"):
            return self.name.rstrip("/")
        if not self.name:
            return f"{datacenter}/{self.object_type.section}"
        return f"{datacenter}/{self.object_type.section}/{self.name.strip('/')}" if "/" in self.name else ""

    def __str__(self) -> str:
        return f"{self.object_type.label} {self.name or self.path}"


class Query(msgspec.Struct, frozen=True):
    """All questions of one session."""

    server: Server
    questions: frozenset[Question] = frozenset()
    addresses: frozenset[str] = frozenset()
    """IP addresses that must be unused."""
    tags: frozenset[str] = frozenset()
    """IDs of tags."""
    policies: frozenset[str] = frozenset()
    """Names of storage policies."""


class Template(msgspec.Struct, frozen=True):
    """A virtual machine to clone machines from."""

    is_template: bool
    disks: tuple[int, ...]
    """Bytes of each disk."""
    has_snapshot: bool
    tags: frozenset[str]


class Answers(msgspec.Struct, frozen=True):
    """Answers of a vCenter."""

    paths: Mapping[Question, tuple[str, ...]] = {}
    """Paths of the matching inventory objects, sorted."""
    lacking: Mapping[str, tuple[str, ...]] = {}
    """By path: privileges that the account lacks."""
    templates: Mapping[str, Template] = {}
    """By path."""
    holders: Mapping[str, str] = {}
    """By address: the virtual machine that has it."""
    unknown_tags: frozenset[str] = frozenset()
    """IDs that no tag has."""
    unknown_policies: frozenset[str] = frozenset()
    """Names that no storage policy has which the account may read."""


LookUp: TypeAlias = questions.LookUp[Query, Answers]
"""Asks a vCenter."""


PRIVILEGES: Mapping[ObjectType, tuple[str, ...]] = {
    ObjectType.DATASTORE: ("Datastore.AllocateSpace", "Datastore.Browse", "Datastore.FileManagement"),
    ObjectType.NETWORK: ("Network.Assign",),
    ObjectType.RESOURCE_POOL: ("Resource.AssignVMToPool",),
    ObjectType.FOLDER: (
        "VirtualMachine.Config.AddExistingDisk",
        "VirtualMachine.Config.AddNewDisk",
        "VirtualMachine.Config.AddRemoveDevice",
        "VirtualMachine.Config.AdvancedConfig",
        "VirtualMachine.Config.CPUCount",
        "VirtualMachine.Config.DiskExtend",
        "VirtualMachine.Config.EditDevice",
        "VirtualMachine.Config.Memory",
        "VirtualMachine.Config.RemoveDisk",
        "VirtualMachine.Config.Settings",
        "VirtualMachine.Interact.PowerOff",
        "VirtualMachine.Interact.PowerOn",
        "VirtualMachine.Inventory.CreateFromExisting",
        "VirtualMachine.Inventory.Delete",
        "VirtualMachine.State.CreateSnapshot",
        "VirtualMachine.State.RemoveSnapshot",
    ),
    ObjectType.TEMPLATE: ("VirtualMachine.Provisioning.DeployTemplate",),
}
"""Privileges that Cluster API's provider needs on objects of a kind (documentation of Cluster API Provider
vSphere: required privileges)."""
