"""The proof that a lake table equals its source: checksums on both sides, then the rows that differ."""
