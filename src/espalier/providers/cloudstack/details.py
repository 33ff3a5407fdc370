"""Details of instances that CloudStack sets itself, so machine configs must not set them."""

RESERVED = (
    *("cpuNumber", "cpuSpeed", "memory", "cpu.corespersocket", "cpuOvercommitRatio", "memoryOvercommitRatio"),
    *("rootdisksize", "rootDiskController", "dataDiskController", "nic", "nicAdapter", "boot.mode", "UEFI", "BIOS"),
    *("keyboard", "password", "Encrypted.Password", "SSH.PublicKey", "SSH.KeyPairNames", "username"),
    *("nameonhypervisor", "hypervisortoolsversion", "platform", "timeoffset", "deployvm", "deployasis"),
    *("kvm.vnc.port", "kvm.vnc.address", "svga.vramSize", "nestedVirtualizationFlag", "video.hardware", "video.ram"),
    *("Message.ReservedCapacityFreed.Flag", "configDriveLocation", "skipFromDRS", "iothreads", "tpmversion"),
    *("guest.cpu.mode", "guest.cpu.model", "extraconfig", "template_osid", "controlNodeLoginUser"),
)
