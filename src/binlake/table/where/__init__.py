"""Which row changes the option `where` chooses, decided as a server's WHERE decides."""
