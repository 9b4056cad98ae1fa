"""Rows counted, not decoded: statistics, indexes, digests of statements."""
