"""Checks of NutanixDatacenterConfigs and NutanixMachineConfigs against their Prism Central (decision 0096)."""
