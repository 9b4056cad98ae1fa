"""Bulk work on Spark: exports."""
