"""Bytes to events: one family of event types per file, no I/O and no state between events."""
