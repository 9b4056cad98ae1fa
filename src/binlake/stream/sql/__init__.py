"""The SQL text that a log contains: what statements do, DDL, digests."""
