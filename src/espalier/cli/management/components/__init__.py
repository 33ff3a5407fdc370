"""Components of a management cluster: Espalier, Cluster API and Flux, and the versions of those that run."""
