"""Machines upgraded where they stand: ControlPlaneUpgrade, MachineDeploymentUpgrade and NodeUpgrade become deeds."""
