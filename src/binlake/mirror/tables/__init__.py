"""What lake tables of all formats have in common: the interface, schemas, keys, data files, what a commit changes."""
