"""The common parts of lake tables of all formats: the interface, schemas, keys, data files, the contents of a commit."""
