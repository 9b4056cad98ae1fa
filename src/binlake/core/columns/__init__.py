"""Columns: their kinds and memory, and the decoding of values into them."""
