"""Reports: conditions and the status of a Cluster, from what was observed and planned. Pure but for `checks`."""
