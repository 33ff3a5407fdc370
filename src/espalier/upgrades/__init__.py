"""Machines upgraded where they stand: ControlPlaneUpgrade, MachineDeploymentUpgrade and NodeUpgrade become deeds."""

from espalier.upgrades import rights
from espalier.upgrades.building import build

__all__ = ["build", "rights"]
