"""ControlPlaneUpgrades and MachineDeploymentUpgrades: the nodes of a group in order, and recorded as they go."""
