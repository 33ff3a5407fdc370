"""Reports on shoots and on the own seed: health, reach, remains, heartbeat."""
