"""Provider Snow: machines are EC2-compatible instances on AWS Snowball Edge devices."""
