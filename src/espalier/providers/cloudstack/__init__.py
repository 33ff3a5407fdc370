"""Provider CloudStack: machines are instances, made from templates of one or more availability zones."""
