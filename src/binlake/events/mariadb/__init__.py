"""Events that only MariaDB writes."""
