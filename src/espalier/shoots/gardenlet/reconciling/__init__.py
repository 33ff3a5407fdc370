"""The reconcile of a shoot: flows, steps, and the result in its status."""
