"""Lake tables in the format Delta, written by Delta's own commands in Spark."""
