"""Logs that grow, in steps, for streams and mirrors: offsets, the planner, the reader, metrics."""
