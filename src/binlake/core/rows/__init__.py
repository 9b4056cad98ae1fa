"""Rows events to row changes: images, columns, the walk over frames."""
