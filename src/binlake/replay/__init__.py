"""Events as text that a server's `mysql` client replays: what `binlake mysqlbinlog` prints."""
