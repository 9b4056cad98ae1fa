"""Table definitions: CREATE and ALTER TABLE, the DDL of a log, schema files, live servers."""
