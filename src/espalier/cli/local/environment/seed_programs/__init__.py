"""Programs of images that run in this process: etcd, its agent, and the parts of a control plane."""
