"""Positions in a chain of logs: GTIDs, splits, boundaries of batches, fingerprints."""
