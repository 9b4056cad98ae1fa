"""The text forms of option values: one entry per metavar of an OptionSpec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Form(NamedTuple):
    """The meaning of a value, including its unit, and example texts."""

    meaning: str
    examples: tuple[str, ...]


FORMS: Mapping[str, Form] = {
    "BOOL": Form("true or false; also yes, no, on, off, 1, 0", ("true", "off")),
    "CHARSET": Form("a character set as the servers name it", ("latin1", "utf8mb4")),
    "DB.TABLE": Form(
        "database and table, upper and lower case as in the log; * and ? are wildcards",
        ("shop.orders", "shop.*", "*.order?"),
    ),
    "DB.TABLE.COLUMN": Form(
        "database, table and column, in any case; * and ? are wildcards",
        ("shop.users.email", "*.*.phone"),
    ),
    "DIR": Form("path or URI of a directory", ("/var/log/binlake", "s3://bucket/ledgers")),
    "EXPR": Form(
        "a condition in MySQL's syntax; docs/where.md describes it",
        ("id = 4711", "state IN ('new', 'paid') AND changed(state)", "before.total > 100"),
    ),
    "FILE": Form("path of a file", ("schema.sql",)),
    "FILE:POS": Form(
        "base name of a log file and a byte offset in it; or the offset alone. The name of the file's"
        " source, or its directory, may stand before it",
        ("binlog.000012:4711", "4711"),
    ),
    "FILE:POS|GTID": Form(
        "a position, or a GTID as its server writes it",
        (
            "binlog.000012:4711",
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:audit:7",
            "0-1-42",
        ),
    ),
    "ID": Form("a whole number", ("101",)),
    "N": Form("a whole number of at least 1", ("10000",)),
    "NAME": Form("name of a column, in upper or lower case", ("id", "state")),
    "SET": Form(
        "a set of GTIDs: MySQL's intervals; MariaDB's domain-server-sequence, or domain-server:range",
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7", "0-1-42,0-1:50-60"),
    ),
    "SIZE": Form("bytes; k, m, g, t (also kb, KiB …) are powers of 1024", ("4096", "64k", "128MB")),
    "SOURCE": Form(
        "name of a directory of logs, their base name, or both",
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "binlog", "db1/binlog"),
    ),
    "START": Form(
        "a word, FILE:POS, or a GTID set",
        ("earliest", "latest", "binlog.000012:4711", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"),
    ),
    "TEXT": Form("any text", ("binlog_",)),
    "URL": Form(
        "mysql:// or mariadb://, user, host and port; no password",
        ("mysql://repl@db1.example.com:3306", "mariadb://repl@db2"),
    ),
    "TIME": Form(
        "a date or time, UTC unless it names a zone; @ and seconds since 1970; a time of today; or how long"
        " ago (s, m, h, d, w). Relative times are resolved when the options are read",
        (
            "2026-11-21",
            "2026-11-21 14:00",
            "2026-11-21T14:00:05.123456Z",
            "2026-11-21 14:00+02:00",
            "@1795269600",
            "14:03",
            "yesterday 14:03",
            "-1h",
        ),
    ),
}
