"""Iceberg tables that equal tables of a server: data files, deletion vectors, an index of keys."""
