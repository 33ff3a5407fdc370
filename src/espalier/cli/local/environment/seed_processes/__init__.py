"""Programs of images that run as processes in seeds: real etcds and control planes."""
