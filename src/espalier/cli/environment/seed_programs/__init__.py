"""Programs of images that run in seeds of this process: etcd, its agent, and the parts of a control plane."""
