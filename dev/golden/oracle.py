"""The content of a table as the server prints it.

A snapshot is one line of `oracle.jsonl.gz`:

    {"label": "after delete", "file": "binlog.000001", "pos": 1234, "table": "golden.ints",
     "columns": [{"name", "type", "charset", "render"}, …], "rows": [[value, …], …]}

Every event of the log that ends at or before (file, pos) counts. A value is null, a string, or
for a string of more than LONG characters `{"len": characters, "sha256": of its UTF-8 bytes}`.
`render` says what the string is (RENDERS). Extra columns: `name#index` is the number behind an
ENUM or SET, `name#hex` the bytes behind an INET4, INET6 or UUID. Rows are sorted.
"""

from __future__ import annotations

import hashlib
from typing import Any

from dev.servers import Session

__all__ = ["RENDERS", "snapshot"]

LONG = 4096
RENDERS = {
    "int": "decimal digits",
    "decimal": "as CAST(c AS CHAR) writes it",
    "float": "the double nearest the value, as CONCAT(c+0e0) writes it",
    "temporal": "as CAST(c AS CHAR) writes it at time zone +00:00",
    "text": "the characters, converted to UTF-8 by the server",
    "json": "the server's text of a JSON document",
    "hex": "the bytes, in lower-case hex (geometry: SRID, then WKB)",
}

# data type -> (render, expression over {c}); everything else is shown as bytes
_CHARACTERS = ("text", "CONVERT({c} USING utf8mb4)")
_SIGNED = ("int", "CAST({c} AS SIGNED)")
_UNSIGNED = ("int", "CAST({c} AS UNSIGNED)")
_RULES = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), _SIGNED),
    **dict.fromkeys(("bit", "year"), _UNSIGNED),
    **dict.fromkeys(("float", "double"), ("float", "CONCAT({c}+0e0)")),
    **dict.fromkeys(("date", "time", "datetime", "timestamp"), ("temporal", "CAST({c} AS CHAR)")),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _CHARACTERS),
    **dict.fromkeys(("enum", "set"), _CHARACTERS),
    **dict.fromkeys(("inet4", "inet6", "uuid"), ("text", "CAST({c} AS CHAR)")),
    "decimal": ("decimal", "CAST({c} AS CHAR)"),
    "json": ("json", "CAST({c} AS CHAR)"),
}
_BYTES = ("hex", "{c}")
_BEHIND = {
    **dict.fromkeys(("enum", "set"), ("#index", "int", "CAST({c}+0 AS UNSIGNED)")),
    **dict.fromkeys(("inet6", "uuid"), ("#hex", "hex", "CAST({c} AS BINARY(16))")),
    "inet4": ("#hex", "hex", "CAST({c} AS BINARY(4))"),
}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _columns(session: Session, database: str, table: str) -> list[tuple[str, str, str, str]]:
    """Name, data type, full type and charset of every column."""
    found = session.rows(
        "SELECT column_name, data_type, column_type, COALESCE(character_set_name, '') "
        "FROM information_schema.columns "
        f"WHERE table_schema = '{database}' AND table_name = '{table}' ORDER BY ordinal_position"
    )
    return [(n or "", (t or "").lower(), c or "", s or "") for n, t, c, s in found]


def _shown(name: str, data_type: str, full_type: str) -> list[tuple[str, str, str]]:
    """The query for a column: (name, render, expression)."""
    column = _quoted(name)
    rule = _UNSIGNED if _RULES.get(data_type) is _SIGNED and "unsigned" in full_type else None
    render, expression = rule or _RULES.get(data_type, _BYTES)
    shown = [(name, render, expression.format(c=column))]
    if data_type in _BEHIND:
        suffix, render, expression = _BEHIND[data_type]
        shown.append((name + suffix, render, expression.format(c=column)))
    return shown


def _value(text: str | None, render: str) -> str | dict[str, Any] | None:
    """A value as the oracle keeps it, from the hex that was selected."""
    if text is None:
        return None
    string = text.lower() if render == "hex" else bytes.fromhex(text).decode()
    if len(string) <= LONG:
        return string
    return {"len": len(string), "sha256": hashlib.sha256(string.encode()).hexdigest()}


def snapshot(session: Session, database: str, table: str) -> dict[str, Any]:
    """The table, its columns and rows, as the server returns them."""
    columns, asked = [], []
    for name, data_type, full_type, charset in _columns(session, database, table):
        for label, render, expression in _shown(name, data_type, full_type):
            shown_type = full_type if len(full_type) < 200 else data_type
            columns.append(
                {"name": label, "type": shown_type, "charset": charset, "render": render}
            )
            characters = expression if render == "hex" else f"CONVERT({expression} USING utf8mb4)"
            asked.append(f"HEX({characters})")
    session.execute("SET SESSION time_zone = '+00:00'")
    found = session.rows(f"SELECT {', '.join(asked)} FROM `{database}`.{_quoted(table)}")
    rows = [[_value(v, c["render"]) for v, c in zip(row, columns, strict=True)] for row in found]
    rows.sort(key=lambda row: [(value is not None, str(value)) for value in row])
    return {"table": f"{database}.{table}", "columns": columns, "rows": rows}
