"""The command `binlake sql`."""
