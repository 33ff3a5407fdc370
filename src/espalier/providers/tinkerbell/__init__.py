"""Provider Tinkerbell: machines are bare metal, on whose disks workflows of Tinkerbell write an operating system."""
