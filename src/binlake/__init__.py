"""MySQL and MariaDB binary logs as tables."""
