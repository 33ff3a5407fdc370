"""Workload clusters whose API servers run in this process, and their stores."""
