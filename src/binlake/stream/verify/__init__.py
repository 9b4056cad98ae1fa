"""Verification of chains of logs: `binlake verify`."""
