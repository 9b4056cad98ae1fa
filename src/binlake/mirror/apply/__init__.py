"""From a range of log to the net change of each row."""
