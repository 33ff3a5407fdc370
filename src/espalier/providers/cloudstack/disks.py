"""The data disk of machines, and symlinks: set up by cloud-init, and by commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from espalier.api.capi.kubeadm import DiskSetup, FileSystem, Partition
from espalier.api.definitions.reference import Annotation, Writer
from espalier.providers.cloudstack.cluster_api import CloudStackMachineTemplate
from espalier.providers.cloudstack.kinds import CloudStackMachineConfigSpec, DiskOffering

_TEMPLATE = CloudStackMachineTemplate.resource.kind
MOUNT_PATH: Annotated[str, Annotation(_TEMPLATE, Writer.MANAGER, "Mount point of the second disk.")] = (
    "mountpath.diskoffering.cloudstack.anywhere.eks.amazonaws.com/v1alpha1"
)
DEVICE: Annotated[str, Annotation(_TEMPLATE, Writer.MANAGER, "Device of the second disk.")] = (
    "device.diskoffering.cloudstack.anywhere.eks.amazonaws.com/v1alpha1"
)
FILE_SYSTEM: Annotated[str, Annotation(_TEMPLATE, Writer.MANAGER, "File system of the second disk.")] = (
    "filesystem.diskoffering.cloudstack.anywhere.eks.amazonaws.com/v1alpha1"
)
LABEL: Annotated[str, Annotation(_TEMPLATE, Writer.MANAGER, "Label of that file system.")] = (
    "label.diskoffering.cloudstack.anywhere.eks.amazonaws.com/v1alpha1"
)
SYMLINKS: Annotated[
    str, Annotation(_TEMPLATE, Writer.MANAGER, "Symbolic links to create, as comma-separated `DIRECTORY:TARGET`.")
] = "symlinks.cloudstack.anywhere.eks.amazonaws.com/v1alpha1"

_LAZY = ["-E", "lazy_itable_init=1,lazy_journal_init=1"]


def disk_setup(disk: DiskOffering) -> DiskSetup:
    """A partition with a file system. An existing partition is kept."""
    return DiskSetup(
        partitions=[Partition(device=disk.device, layout=True, overwrite=False, table_type="gpt")],
        filesystems=[
            FileSystem(
                device=_partition(disk),
                filesystem=disk.filesystem,
                label=disk.label,
                overwrite=False,
                extra_opts=_LAZY if disk.filesystem.startswith("ext") else [],
            )
        ],
    )


def mounts(disk: DiskOffering) -> list[list[str]]:
    """The mount of that file system."""
    return [[f"LABEL={disk.label}", disk.mount_path]]


def commands(disk: DiskOffering) -> list[str]:
    """Commands with the same result, for etcd machines, whose configuration does not support disks."""
    partition = _partition(disk)
    return [
        f"[ -b {partition} ] || {{ echo ';' | sfdisk --label gpt {disk.device} && udevadm settle; }}",
        f"blkid -L {disk.label} || mkfs.{disk.filesystem} -L {disk.label} {partition}",
        f"mkdir -p {disk.mount_path}",
        f"echo 'LABEL={disk.label} {disk.mount_path} {disk.filesystem} defaults,nofail 0 2' >> /etc/fstab",
        f"mount {disk.mount_path}",
    ]


def links(symlinks: Mapping[str, str]) -> Iterator[str]:
    """Commands that replace directories with symlinks, and move their content to the targets."""
    for directory, target in sorted(symlinks.items()):
        move_content = (
            f"if [ -d {directory} ]; then cp -a {directory}/. {target}/ && mv {directory} {directory}.before; fi"
        )
        make_link = f'mkdir -p {target} "$(dirname {directory})" && {move_content} && ln -s {target} {directory}'
        yield f"[ -L {directory} ] || {{ {make_link}; }}"


def template_annotations(spec: CloudStackMachineConfigSpec) -> dict[str, str]:
    """Annotations of a machine template about the disk and the symlinks, as in EKS Anywhere."""
    annotations: dict[str, str] = {}
    if (disk := spec.disk) is not None:
        annotations = {
            MOUNT_PATH: disk.mount_path,
            DEVICE: disk.device,
            FILE_SYSTEM: disk.filesystem,
            LABEL: disk.label,
        }
    if spec.symlinks:
        annotations[SYMLINKS] = ",".join(f"{name}:{target}" for name, target in sorted(spec.symlinks.items()))
    return annotations


def _partition(disk: DiskOffering) -> str:
    """The first partition of a disk, with a `p` in between if the name of the disk ends with a digit."""
    return f"{disk.device}{'p' if disk.device[-1].isdigit() else ''}1"
