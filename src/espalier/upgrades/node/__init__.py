"""NodeUpgrades: a pod on the node, its steps followed, and nothing left behind."""
