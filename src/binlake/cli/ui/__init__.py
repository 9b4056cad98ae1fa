"""The command `binlake ui`."""
