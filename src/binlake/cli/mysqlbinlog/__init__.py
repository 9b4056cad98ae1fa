"""The command `binlake mysqlbinlog`."""
