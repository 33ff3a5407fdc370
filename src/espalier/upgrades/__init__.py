"""In-place upgrades: the controllers of ControlPlaneUpgrade, MachineDeploymentUpgrade and NodeUpgrade."""
