"""Gardener's kinds, as far as we write or read them, and the facts that all parts of a migration share."""

from espalier.api.gardener import (
    backups,
    cloud_profile,
    cluster,
    control_plane,
    controller_installation,
    controller_registration,
    credentials_binding,
    dns_record,
    etcd,
    extension,
    extension_backups,
    infrastructure,
    machines,
    network,
    operating_system_config,
    project,
    seed,
    shoot,
    shoot_state,
    worker,
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
