"""Row changes as SQL scripts, forward and as an undo, and as mysqlbinlog's pseudo-SQL."""
