"""Streams of Spark: the reader and the metrics."""
