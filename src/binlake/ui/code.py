"""The selection of the page as a program: a command, Python or Spark code that reads the same row changes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from binlake.errors import OptionError
from binlake.printable import printable
from binlake.values.options import ReadOptions
from binlake.values.times import utc_text

KINDS = ("command", "python", "spark")

#: Options that are not part of the selection.
_LEFT_OUT = ("batch_bytes", "threads", "query", "thread_id")


def program(kind: str, files: Sequence[str], options: ReadOptions, key: Sequence[str] = ()) -> str:
    """Return the text of a program. With a `key`, the program of Python and the command show the
    history of that row of the only table in the options.

    Names in the text come from the log. None of them can end its literal or become an option, and
    control characters are escapes. Raises OptionError for an unknown kind, and for a key without its
    columns or its table.
    """
    given = _given(options)
    if key and kind in ("command", "python"):
        _check_row(options, key)
    if kind == "command":
        return _command(files, given, options, key)
    if kind == "python":
        return _python(files, given, options, key)
    if kind == "spark":
        return _spark(files, given)
    raise OptionError(f"kind {kind!r}: expected one of {', '.join(KINDS)}", name="kind", value=kind)


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


def _check_row(options: ReadOptions, key: Sequence[str]) -> None:
    if len(options.table) != 1:
        raise OptionError("the history of a row needs one table", name="table")
    for text in key:
        column, equals, _ = text.partition("=")
        if not column or not equals:
            raise OptionError(f"key {text!r}: expected COLUMN=VALUE", name="key", value=text)


def _command(
    files: Sequence[str], given: dict[str, Any], options: ReadOptions, key: Sequence[str]
) -> str:
    command, arguments = "rows", list(files)
    if key:
        command, arguments = "history", [options.table[0], *files]
        given = {name: value for name, value in given.items() if name != "table"}
    lines = [_words("--key", text) for text in key]
    for name, value in given.items():
        flag = "--" + name.replace("_", "-")
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, bool):
                lines.append(flag if one else flag.replace("--", "--no-", 1))
            else:
                lines.append(_words(flag, one))
    if any(len(argument) > 1 and argument.startswith("-") for argument in arguments):
        lines = [f"binlake {command}", *lines, _words("--", *arguments)]
    else:
        lines.insert(0, _words("binlake", command, *arguments))
    return " \\\n    ".join(lines) + "\n"


def _words(*words: str) -> str:
    return " ".join(map(_word, words))


def _word(text: str) -> str:
    """Quote a word for bash and zsh. A terminal may obey control characters that are pasted into it, so
    they are escapes.
    """
    if printable(text) == text:
        return shlex.quote(text)
    return "$'" + "".join(map(_quoted_character, text)) + "'"


def _quoted_character(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if printable(character) == character:
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def _python(
    files: Sequence[str], given: dict[str, Any], options: ReadOptions, key: Sequence[str]
) -> str:
    if key:
        table = given.pop("table")[0]
    arguments = [
        _literal(list(files)),
        *(f"{name}={_literal(value)}" for name, value in given.items()),
    ]
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
    start = (
        "from binlake.spark import session\n\nspark = session()  # the running one, if there is one"
    )
    return f"{start}\nchanges = (\n    {chain}\n)\nchanges.show()\n"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return printable(json.dumps(value, ensure_ascii=False))  # its escapes are Python's, too
