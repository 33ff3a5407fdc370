"""Container runtimes: processes of this machine, or coroutines of this process."""
