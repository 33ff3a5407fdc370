"""An asynchronous Kubernetes client over two transports (HTTP and in-process), with kubeconfig,
certificates, and server-side apply."""
