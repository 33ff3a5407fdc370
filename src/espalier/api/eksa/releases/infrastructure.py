"""Components of infrastructure providers in Bundles."""

import msgspec

from espalier.api.eksa.releases.components import Archive, Image, Manifest, Version
from espalier.api.meta import Part


class AwsBundle(Part):
    """Infrastructure provider AWS."""

    version: Version = ""
    controller: Image | None = None
    kube_proxy: Image | None = None
    components: Manifest | None = None
    cluster_template: Manifest | None = None
    metadata: Manifest | None = None


class VSphereBundle(Part):
    """Infrastructure provider vSphere."""

    version: Version = ""
    cluster_api_controller: Image | None = msgspec.field(default=None, name="clusterAPIController")
    kube_proxy: Image | None = None
    manager: Image | None = None
    kube_vip: Image | None = None
    driver: Image | None = None
    syncer: Image | None = None
    components: Manifest | None = None
    metadata: Manifest | None = None
    cluster_template: Manifest | None = None


class DockerBundle(Part):
    """Infrastructure provider Docker."""

    version: Version = ""
    manager: Image | None = None
    kube_proxy: Image | None = None
    components: Manifest | None = None
    cluster_template: Manifest | None = None
    metadata: Manifest | None = None


class CloudStackBundle(Part):
    """Infrastructure provider CloudStack."""

    version: Version = ""
    cluster_api_controller: Image | None = msgspec.field(default=None, name="clusterAPIController")
    kube_rbac_proxy: Image | None = None
    kube_vip: Image | None = None
    components: Manifest | None = None
    metadata: Manifest | None = None


class NutanixBundle(Part):
    """Infrastructure provider Nutanix."""

    version: Version = ""
    cluster_api_controller: Image | None = msgspec.field(default=None, name="clusterAPIController")
    cloud_provider: Image | None = None
    kube_vip: Image | None = None
    components: Manifest | None = None
    metadata: Manifest | None = None
    cluster_template: Manifest | None = None


class SnowBundle(Part):
    """Infrastructure provider Snow."""

    version: Version = ""
    manager: Image | None = None
    kube_vip: Image | None = None
    components: Manifest | None = None
    metadata: Manifest | None = None
    bottlerocket_bootstrap_snow: Image | None = None


class HookArch(Part):
    """A file of the installer, for each architecture."""

    amd: Archive | None = None
    arm: Archive | None = None


class HookBundle(Part):
    """Installer operating system that machines boot first."""

    bootkit: Image | None = None
    docker: Image | None = None
    kernel: Image | None = None
    initramfs: HookArch | None = None
    vmlinuz: HookArch | None = None
    iso: HookArch | None = None


class ActionsBundle(Part):
    """Steps of a Tinkerbell workflow."""

    cexec: Image | None = None
    kexec: Image | None = None
    image_to_disk: Image | None = None
    oci_to_disk: Image | None = None
    write_file: Image | None = None
    reboot: Image | None = None


class TinkBundle(Part):
    """Workflow engine of Tinkerbell."""

    nginx: Image | None = None
    tink_controller: Image | None = None
    tink_relay: Image | None = None
    tink_relay_init: Image | None = None
    tink_server: Image | None = None
    tink_worker: Image | None = None


class TinkerbellStackBundle(Part):
    """Services of Tinkerbell."""

    actions: ActionsBundle | None = None
    boots: Image | None = None
    hegel: Image | None = None
    hook: HookBundle | None = None
    rufio: Image | None = None
    stack: Image | None = None
    tink: TinkBundle | None = None
    tinkerbell: Image | None = None
    tinkerbell_chart: Image | None = None
    tinkerbell_crds: Image | None = None


class TinkerbellBundle(Part):
    """Infrastructure provider Tinkerbell (bare metal)."""

    version: Version = ""
    cluster_api_controller: Image | None = msgspec.field(default=None, name="clusterAPIController")
    components: Manifest | None = None
    metadata: Manifest | None = None
    cluster_template: Manifest | None = None
    envoy: Image | None = None
    kube_vip: Image | None = None
    tinkerbell_stack: TinkerbellStackBundle | None = None
