"""The command `binlake history`."""
