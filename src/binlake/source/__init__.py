"""Bytes in: files, index files, stores and pipes become windows of whole, verified events."""
