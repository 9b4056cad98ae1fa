"""A table as it was at a moment: rows from before or after it, and the changes of the log between."""
