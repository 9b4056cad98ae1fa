"""The command `binlake mirror`."""
