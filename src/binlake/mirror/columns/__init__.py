"""Columns that the lake does not show as the server does: those left out, those hashed."""
