"""ShootStates as this gardenlet left them."""
