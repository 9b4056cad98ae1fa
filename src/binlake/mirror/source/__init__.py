"""The server's side of a mirror: its logs, the check of its settings, the errors that concern one table."""
