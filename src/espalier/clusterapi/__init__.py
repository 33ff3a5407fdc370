"""Facts about Cluster API for several components: typed paths, names, the kubeconfig Secret, changes."""
