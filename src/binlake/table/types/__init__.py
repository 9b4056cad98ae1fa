"""The column types: one file per family, with all its faces; `registry.py` picks."""
