"""ShootStates: the state of a shoot's control plane in the garden, with which another seed can continue it.

Gardenlets write them all the time, not only when a shoot migrates: a lost seed can't be asked any more.
"""
