"""What several components must know about Cluster API, once: typed paths, names, the kubeconfig Secret, changes."""
