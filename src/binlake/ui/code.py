"""The selection of the page as a program: a command, Python or Spark code that reads the same row changes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from binlake.errors import OptionError
from binlake.stream.statistics import utc_text
from binlake.values.options import ReadOptions

__all__ = ["KINDS", "program"]

KINDS = ("command", "python", "spark")

#: Options that are not part of the selection.
_LEFT_OUT = ("batch_bytes", "threads", "query", "thread_id")


def program(kind: str, files: Sequence[str], options: ReadOptions, key: Sequence[str] = ()) -> str:
    """Return the text of a program. With a `key`, the program of Python and the command show the
    history of that row of the only table in the options.

    Raises OptionError for an unknown kind.
    """
    given = _given(options)
    if kind == "command":
        return _command(files, given, options, key)
    if kind == "python":
        return _python(files, given, options, key)
    if kind == "spark":
        return _spark(files, given)
    raise OptionError(f"kind {kind!r}: not one of {', '.join(KINDS)}", name="kind", value=kind)


def _given(options: ReadOptions) -> dict[str, Any]:
    """Return the options that differ from the defaults, as texts, lists of texts and booleans."""
    found: dict[str, Any] = {}
    for field in fields(ReadOptions):
        value = getattr(options, field.name)
        if value == field.default or field.name in _LEFT_OUT:
            continue
        if field.name in ("since", "until"):
            value = utc_text(value)
        elif isinstance(value, tuple):
            value = [str(one) for one in value]
        elif not isinstance(value, bool):
            value = str(value)
        found[field.name] = value
    return found


def _command(
    files: Sequence[str], given: dict[str, Any], options: ReadOptions, key: Sequence[str]
) -> str:
    words = ["binlake", "rows"]
    if key:
        words = ["binlake", "history", options.table[0]]
        given = {name: value for name, value in given.items() if name != "table"}
    words += files
    lines = [shlex.join(words)]
    lines += [shlex.join(("--key", text)) for text in key]
    for name, value in given.items():
        flag = "--" + name.replace("_", "-")
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, bool):
                lines.append(flag if one else flag.replace("--", "--no-", 1))
            else:
                lines.append(shlex.join((flag, one)))
    return " \\\n    ".join(lines) + "\n"


def _python(
    files: Sequence[str], given: dict[str, Any], options: ReadOptions, key: Sequence[str]
) -> str:
    if key:
        table = given.pop("table")[0]
    paths = json.dumps(files[0] if len(files) == 1 else list(files), ensure_ascii=False)
    arguments = [paths, *(f"{name}={_literal(value)}" for name, value in given.items())]
    opening = ",\n    ".join(arguments)
    lines = ["import binlake", "", f"log = binlake.open(\n    {opening},\n)"]
    if key:
        columns = dict(text.split("=", 1) for text in key)
        lines += [
            f"history = log.history({_literal(table)}, **{_literal(columns)})",
            "for change in history.changes:",
            "    print(change.ts, change.op, change.changed)",
        ]
    else:
        lines += [
            "for batch in log.changes():  # pyarrow.RecordBatch",
            "    print(batch.to_pylist())",
        ]
        if len(options.table) == 1 and not set("*?") & set(options.table[0]):
            lines[-2:] = [
                f"rows = log.to_arrow({_literal(options.table[0])})  # pyarrow.Table, typed columns",
                "print(rows)",
            ]
    return "\n".join(lines) + "\n"


def _spark(files: Sequence[str], given: dict[str, Any]) -> str:
    lines = ['spark.read.format("binlog")']
    for name, value in given.items():
        text = ",".join(value) if isinstance(value, list) else value
        lines.append(f".option({_literal(name)}, {_literal(text)})")
    lines.append(f".load({_literal(list(files))})")
    chain = "\n    ".join(lines)
    return f"changes = (\n    {chain}\n)\nchanges.show()\n"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return json.dumps(value, ensure_ascii=False)
