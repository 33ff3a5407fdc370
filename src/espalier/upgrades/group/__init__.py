"""ControlPlaneUpgrades and MachineDeploymentUpgrades: upgrade the nodes of a group in order."""
