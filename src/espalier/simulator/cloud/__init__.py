"""A simulated cloud: accounts, networks, virtual machines, buckets and DNS records, and a log of requests."""
