"""Benchmarks: `python -m benchmarks` (`make bench`)."""
