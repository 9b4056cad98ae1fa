"""The command `binlake stats`."""
