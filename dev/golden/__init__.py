"""Golden logs: small real logs with the server's own answers beside them.

`python -m dev.golden` makes `tests/golden/<server>/<case>/` anew:

    binlog.000001 …      the log as the server wrote it, and binlog.index
    oracle.jsonl.gz      one line per snapshot of a table: what the server's SELECT returned
    events.jsonl.gz      one line per log file: what SHOW BINLOG EVENTS listed
    schema.sql           SHOW CREATE TABLE of the tables, at the end
    case.json            what it is for, server version, options, size and SHA-256 of each file

The snapshot format is described in `oracle.py`. Statements are fixed, so remaking a case changes
times, GTIDs and whatever the server's version changed, and nothing else.
"""
