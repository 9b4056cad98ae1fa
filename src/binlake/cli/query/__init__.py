"""The command `binlake query`."""
