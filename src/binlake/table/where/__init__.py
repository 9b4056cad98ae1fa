"""The choice of row changes by the option `where`, with the results of a server's WHERE."""
