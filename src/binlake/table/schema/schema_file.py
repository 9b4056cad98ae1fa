r"""Read CREATE TABLE statements: output of SHOW CREATE TABLE, mysqldump, or written by hand.

Any text may surround them: a dump of many gigabytes (its INSERTs are skipped inside one regular
expression), the vertical (`\G`) or the escaped one-line output of the `mysql`
client, `DELIMITER` sections. `USE`, `CREATE DATABASE` and mysqldump's comments (`-- Current
Database:`, `-- Host: … Database:`) name the database of what follows. Comments of `binlake schema`
(`-- binlake: from FILE:POS`) contain the place from which the next statement holds.

`sql_tokens.py` splits the statements into words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from binlake.errors import SchemaError, SourceError
from binlake.format.sql_names import ANSI_NAME_BYTES, unquoted_name
from binlake.source.inflate import MAGIC_BYTES, decompressor_for
from binlake.source.replica.url import ServerUrl, is_server_url
from binlake.table.schema.create_table import parse_create_table
from binlake.table.schema.declared import DeclaredSchema, DeclaredTable
from binlake.table.schema.dump_text import DumpText
from binlake.table.schema.schema_text import read_note
from binlake.table.schema.sql_tokens import UnreadableTableError
from binlake.values.frame import DEFAULT_MAX_MEMORY
from binlake.values.options import ReadOptions
from binlake.values.position import LogPosition

_QUOTED = rb"""'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+"|`[^`]*+`"""
_NOTE = rb"--(?= Current Database: | Host: | binlake: )[^\n]*+"
# Text without meaning here, many items in one token: a token costs a microsecond, and a file of 1 MB may consist of
# a million signs. No item begins a token of another kind. The counts are limited so that every token that is cut at
# the end of a window is short.
_SKIPPED = (
    rb"(?:(?:[ \t]{0,64}+[\r\n\f\v]{1,64}+){1,128}+"
    rb"|(?!^[ \t]{0,1024}(?:USE|DELIMITER)\b)"
    # most bytes, of which none begins a word or sign of another kind
    rb"(?:[^'\"`;()#/\-\r\n\f\vIRCUD]{1,4096}+|(?!\b(?:(?:INSERT|REPLACE)\s|CREATE\b))[IRCUD]\w{0,4096}+)"
    rb"|"
    + _QUOTED
    + rb"|(?!"
    + _NOTE
    + rb")(?:--(?=[ \t\r\n])|\#)[^\n]*+"
    + rb"|/\*(?!M?!)(?:[^*]++|\*(?!/))*+\*/"
    + rb"|/\*(?=M?!)|/(?!\*)|-(?!-[ \t\r\n])"
    + rb"){1,64}+"
)
_SPACE = rb"\s{1,1024}+"
_TOKEN = re.compile(
    rb"(?P<insert>\b(?:INSERT|REPLACE)\s(?:[^'\"`;]++|" + _QUOTED + rb")*+)"
    rb"|(?P<use>(?:^|(?<=;))[ \t]{0,1024}USE" + _SPACE + ANSI_NAME_BYTES + rb")"
    rb"|(?P<delimiter>^[ \t]{0,1024}DELIMITER[ \t]{1,1024}+\S{1,1024}+)"
    rb"|(?P<skipped>" + _SKIPPED + rb")"
    rb"|(?P<note>" + _NOTE + rb")"
    # An unterminated item ends the file: searching for its end again from each place would be
    # quadratic.
    rb"|(?P<unclosed>['\"`]|/\*(?!M?!))"
    rb"|(?P<table>\bCREATE\s{1,1024}+(?:OR\s{1,1024}+REPLACE\s{1,1024}+)?(?:/\*M?!\d{0,16}\s{0,1024}+)?"
    rb"(?:TEMPORARY\s{1,1024}+)?(?:\*/\s{0,1024}+)?TABLE\b)"
    rb"|(?P<database>\bCREATE\s{1,1024}+(?:OR\s{1,1024}+REPLACE\s{1,1024}+)?(?:DATABASE|SCHEMA)\b[^;]{0,4096}+)"
    rb"|(?P<open>\({1,4096}+)|(?P<close>\){1,4096}+)|(?P<end>;(?:\s{0,64}+;){0,4096}+)",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_LONGEST_NOTE = 16 << 10
_HEAD_BYTES = 4096  # that show whether a file is text
_CURRENT_DATABASE = re.compile(
    rb"-- Current Database: (`(?:[^`]|``)+`)|-- Host: .*Database: (\S+)\s*$"
)
_DATABASE_PARTS = re.compile(
    rb"(?:DATABASE|SCHEMA)\s+(?:(?:/\*!\d*\s*)?IF\s+NOT\s+EXISTS\s*(?:\*/\s*)?)?(?P<name>"
    + ANSI_NAME_BYTES
    + rb")"
    rb"(?:.*?(?:CHARACTER\s+SET|CHARSET)\s*=?\s*(?P<charset>\w+))?",
    re.IGNORECASE | re.DOTALL,
)
_ESCAPED_LINE = re.compile(rb"\\(.)", re.DOTALL)


class DumpPart(NamedTuple):
    """Bytes [start, end) of a dump: a statement of this kind, or a note (a comment)."""

    kind: str
    start: int
    end: int


def read_schema_file(path: str, most_bytes: int = DEFAULT_MAX_MEMORY) -> DeclaredSchema:
    """Read the declarations of a local file, or of a pipe with at most `most_bytes`. Raises SchemaError naming the
    table and line, or the file.
    """
    try:
        with Path(path).open("rb") as file:
            if not Path(path).is_file():  # a pipe
                text = file.read(most_bytes + 1)
                if len(text) > most_bytes:
                    raise SchemaError(
                        f"{path} is a pipe, and contains more than the {most_bytes:,} bytes that option max_memory allows",
                        hint="save its output as a file",
                    )
                return parse_schema(text, path)
            data = DumpText(file, path)
            if len(data) == 0:
                raise SchemaError(f"schema file {path} is empty")
            if decompressor_for(data[:MAGIC_BYTES]) is not None:
                raise SchemaError(
                    f"schema file {path} is compressed",
                    hint="decompress it first: --schema <(zcat FILE)",
                )
            return parse_schema(data, path)
    except SourceError as error:
        raise SchemaError(f"cannot read schema file {error.message}") from None
    except OSError as error:
        raise SchemaError(f"cannot read schema file {path}: {error.strerror or error}") from None


def declared_schema(options: ReadOptions, inputs: Iterable[str] = ()) -> DeclaredSchema:
    """Return the declarations of the option schema, a file or a live server. The server from which the
    logs are read completes them: the first URL among `inputs`, and `of_logs` if there are several. Raises SchemaError, OptionError.
    """
    tables: tuple[DeclaredTable, ...] = ()
    named = options.schema
    if named is not None and not is_server_url(named):
        tables, named = read_schema_file(named, options.max_memory).tables, None
    urls = [named] if named is not None else [path for path in inputs if is_server_url(path)]
    if not urls:
        return DeclaredSchema(tables)
    from binlake.table.schema.server_schema import ServerSchema, SourceSchema

    made = SourceSchema if named is None else ServerSchema
    return made(ServerUrl.parse_all(urls[0]), tables)


def parse_schema(data: bytes | DumpText, file: str | None = None) -> DeclaredSchema:
    """Read the declarations in a text. Raises SchemaError if it has none, or an unreadable one."""
    text = DumpText(data, file or "the schema") if isinstance(data, bytes) else data
    tables = list(_tables(text, file))
    if not tables:
        raise SchemaError(
            f"{file or 'the schema'} contains no CREATE TABLE",
            hint="save the output of SHOW CREATE TABLE, or of mysqldump --no-data",
        )
    return DeclaredSchema(tables)


def _tables(data: DumpText, file: str | None) -> Iterator[DeclaredTable]:
    database: str | None = None
    charsets: dict[str, str] = {}  # default character set by database
    line, counted = 1, 0
    since: LogPosition | None = None  # of the next table
    for kind, start, end in dump_parts(data, file):
        if kind in ("insert", "delimiter"):
            continue
        text = data[start:end]
        if kind == "table":
            line, counted = line + data.newlines(counted, start), start
            for declared in _table(text, line, database, charsets, file):
                yield declared if since is None else replace(declared, since=since)
            since = None
        elif kind == "database":
            found = _DATABASE_PARTS.search(text)
            if found and found["charset"]:
                charsets[_unquoted(found["name"])] = found["charset"].decode("ascii").lower()
        else:
            if kind == "note" and len(text) <= _LONGEST_NOTE:
                ours = read_note(text.decode("utf-8", "replace"))
                if ours is not None:
                    since, version = ours
                    if version is not None:
                        yield version
                        since = None
            database = named_database(kind, text) or database


def named_database(kind: str, text: bytes) -> str | None:
    """Return the current database that a part of a dump names, if it does."""
    if kind == "use":
        return _unquoted(text.strip()[3:])
    if kind != "note" or len(text) > _LONGEST_NOTE:
        return None
    found = _CURRENT_DATABASE.match(text)
    return None if found is None else _unquoted(found[1] or found[2])


def dump_parts(data: DumpText, file: str | None) -> Iterator[DumpPart]:
    """Yield the relevant parts of a dump: table, insert, database, use, delimiter, note. Raises SchemaError."""
    if b"\0" in data[:_HEAD_BYTES]:
        return  # no text: it holds no CREATE TABLE
    begun: int | None = None  # start of the CREATE TABLE that is being passed
    depth = 0
    for kind, start, end in data.tokens(_TOKEN):
        if kind == "open":
            depth += end - start
        elif kind == "close":
            depth = max(0, depth - (end - start))
        elif kind == "end" or (kind in ("table", "database", "use", "delimiter") and depth == 0):
            if begun is not None:
                yield DumpPart("table", begun, start)
            begun, depth = None, 0
            if kind == "table":
                begun = start
            elif kind != "end":
                yield DumpPart(kind, start, end)
        elif kind == "unclosed":
            what = "comment" if data[start : start + 1] == b"/" else "quote"
            line = data.newlines(0, start) + 1
            raise SchemaError(f"line {line}: unterminated {what}", file=file)
        elif begun is None and kind in ("note", "insert"):
            yield DumpPart(kind, start, end)
    if begun is not None:
        yield DumpPart("table", begun, len(data))


def _table(
    text: bytes, line: int, database: str | None, charsets: dict[str, str], file: str | None
) -> Iterator[DeclaredTable]:
    first_line = text.partition(b"\n")[0]
    if rb"(\n" in first_line:  # the mysql client's one-line output escapes the text
        escapes = {b"n": b"\n", b"t": b"\t", b"0": b"\0"}
        text = _ESCAPED_LINE.sub(lambda m: escapes.get(m[1], m[1]), first_line)
    try:
        declared = parse_create_table(text.decode("utf-8"), database, charsets, line)
    except UnicodeDecodeError:
        raise SchemaError(f"line {line}: CREATE TABLE is not UTF-8", file=file) from None
    except UnreadableTableError as error:
        raise SchemaError(f"line {line}: cannot read CREATE TABLE {error}", file=file) from None
    if declared is not None:
        yield declared


def _unquoted(name: bytes) -> str:
    return unquoted_name(name.decode("utf-8", "replace").strip().rstrip(";").strip())
