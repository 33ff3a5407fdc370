"""Gardener's kinds, as far as we write or read them, and the facts that all parts of a migration share."""

from espalier.api.gardener import etcd, machines
from espalier.api.gardener.extensions import (
    cluster,
    control_plane,
    dns_record,
    extension,
    extension_backups,
    infrastructure,
    network,
    operating_system_config,
    worker,
)
from espalier.api.gardener.garden import (
    backups,
    cloud_profile,
    controller_installation,
    controller_registration,
    credentials_binding,
    project,
    seed,
    shoot,
    shoot_state,
)
from espalier.api.kinds import KubeObject

GARDEN_KINDS: tuple[type[KubeObject], ...] = (
    shoot.Shoot,
    seed.Seed,
    project.Project,
    cloud_profile.CloudProfile,
    backups.BackupBucket,
    backups.BackupEntry,
    controller_registration.ControllerRegistration,
    controller_installation.ControllerInstallation,
    credentials_binding.CredentialsBinding,
    shoot_state.ShootState,
)
"""Kinds of the garden."""

SHOOT_EXTENSION_KINDS: tuple[type[extension.Extended], ...] = (
    infrastructure.Infrastructure,
    worker.Worker,
    control_plane.ControlPlane,
    network.Network,
    operating_system_config.OperatingSystemConfig,
    dns_record.DNSRecord,
    extension.Extension,
)
"""Kinds of extension resources in a shoot's namespace: those that a ShootState has state of."""

EXTENSION_KINDS: tuple[type[extension.Extended], ...] = (
    *SHOOT_EXTENSION_KINDS,
    extension_backups.BackupBucket,
    extension_backups.BackupEntry,
)
"""All extension kinds."""

SEED_KINDS: tuple[type[KubeObject], ...] = (
    cluster.Cluster,
    *EXTENSION_KINDS,
    etcd.Etcd,
    machines.MachineClass,
    machines.MachineDeployment,
    machines.MachineSet,
    machines.Machine,
)
"""Kinds of seeds."""
