"""The effects of the log's DDL statements on lake tables."""
