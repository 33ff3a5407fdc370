"""Action: the steps of a reconcile, and the controller that runs them."""
