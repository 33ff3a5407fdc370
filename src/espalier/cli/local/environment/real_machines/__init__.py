"""Virtual machines of the simulated cloud that are real nodes, and the network by which they find their shoot."""
