"""Provider Docker: machines are containers, the load balancer is one too, and there are no machine configs."""
