"""The replication protocol: a live server as a source of events."""
