"""Provider Docker: machines and the load balancer are containers, and there are no machine configs."""
