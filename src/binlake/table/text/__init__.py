"""Columns of values as JSON and as SQL literals."""
