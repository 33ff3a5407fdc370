"""Provider Tinkerbell: machines are bare metal, provisioned by workflows of Tinkerbell."""
