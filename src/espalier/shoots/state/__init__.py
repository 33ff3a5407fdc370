"""ShootStates: what of a shoot's control plane is in the garden, so that another seed can go on with it.

Gardenlets write them all the time, not only when a shoot migrates: a seed that is lost can't be asked any more.
"""
