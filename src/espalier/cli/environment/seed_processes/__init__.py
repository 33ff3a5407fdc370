"""Programs of images that run in seeds of this process as processes of their own: real etcds and control planes."""
