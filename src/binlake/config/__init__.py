"""The TOML file of unattended processes: many servers to archive, many archives to serve."""
