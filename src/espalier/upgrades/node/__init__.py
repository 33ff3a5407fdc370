"""NodeUpgrades: run an upgrader pod on the node, follow its steps, and clean up."""
