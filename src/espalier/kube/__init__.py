"""The wire: an asynchronous Kubernetes client over two transports (HTTP and in-process), and what it needs."""
