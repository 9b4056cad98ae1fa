"""Events that both MySQL and MariaDB write."""
