"""The index beside a log."""
