"""Reports about a mirror: status, metrics, and the pulse that other processes read."""
