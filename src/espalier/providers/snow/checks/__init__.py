"""Checks of SnowMachineConfigs against their devices (decision 0096)."""
