"""A TOML file for processes that run unattended: many servers to archive, many archives to serve."""
