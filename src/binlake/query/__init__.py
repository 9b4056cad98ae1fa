"""SQL over logs: DuckDB runs the statement, and what it asks of a table becomes a read of the log."""
