"""The command `binlake state`."""
