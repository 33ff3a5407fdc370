"""Details of instances that CloudStack sets itself: nobody may bring them along with a machine config."""

RESERVED = (
    *("cpuNumber", "cpuSpeed", "memory", "cpu.corespersocket", "cpuOvercommitRatio", "memoryOvercommitRatio"),
    *("rootdisksize", "rootDiskController", "dataDiskController", "nic", "nicAdapter", "boot.mode", "UEFI", "BIOS"),
    *("keyboard", "password", "Encrypted.Password", "SSH.PublicKey", "SSH.KeyPairNames", "username"),
    *("nameonhypervisor", "hypervisortoolsversion", "platform", "timeoffset", "deployvm", "deployasis"),
    *("kvm.vnc.port", "kvm.vnc.address", "svga.vramSize", "nestedVirtualizationFlag", "video.hardware", "video.ram"),
    *("Message.ReservedCapacityFreed.Flag", "configDriveLocation", "skipFromDRS", "iothreads", "tpmversion"),
    *("guest.cpu.mode", "guest.cpu.model", "extraconfig", "template_osid", "controlNodeLoginUser"),
)
