"""Events of servers before MySQL 5.0."""
