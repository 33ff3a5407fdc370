"""Setup of nodes: operating systems, proxies, and the address of the API server."""
