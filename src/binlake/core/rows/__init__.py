"""Rows events to row changes: their heads, the rows of each table, the walk over frames."""
