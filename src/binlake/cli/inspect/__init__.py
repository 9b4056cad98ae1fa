"""The command `binlake inspect`."""
