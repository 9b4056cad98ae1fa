"""Bounds-checked readers, growing bytes that Arrow takes over, and errors as structs."""
