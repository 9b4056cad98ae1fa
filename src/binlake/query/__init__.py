"""SQL over logs: DuckDB runs the statement, and its requests to a table become reads of the log."""
