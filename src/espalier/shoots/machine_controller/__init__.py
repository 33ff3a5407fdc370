"""The machine controller manager of one shoot: MachineDeployment, MachineSet, Machine, virtual machine."""
