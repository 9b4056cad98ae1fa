"""The prompt of `binlake query FILE…`: statements with completion and history."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from binlake.cli.common.terminal import note
from binlake.errors import BinlogError
from binlake.query.database import LogDatabase

_LEAVING = ("exit", "quit", "\\q")
_WORD = re.compile(r'"?[\w$.@]+"?')
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)?")
_KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN", "LEFT JOIN"),
    *(
        "USING",
        "ON",
        "AS",
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS NULL",
        "BETWEEN",
        "LIKE",
        "DISTINCT",
        "ALL",
    ),
    *(
        "count(*)",
        "sum(",
        "min(",
        "max(",
        "avg(",
        "DESC",
        "WITH",
        "UNION ALL",
        "CASE",
        "WHEN",
        "THEN",
    ),
    *("ELSE", "END", "CAST(", "INTERVAL", "DESCRIBE", "SHOW TABLES", "SUMMARIZE", "EXPLAIN"),
)


def run_prompt(database: LogDatabase, run: Callable[[str], None]) -> None:
    """Read statements until the user leaves, and pass each to `run`. An error ends its statement only."""
    session: PromptSession[str] = PromptSession(
        history=_history(),
        completer=NameCompleter(database),
        complete_in_thread=True,
        key_bindings=_enter_runs_whole_statements(),
        multiline=True,
        prompt_continuation="   ...> ",
    )
    note(
        "end each statement with a semicolon; SHOW TABLES lists the tables, and exit ends the prompt"
    )
    while True:
        try:
            text = session.prompt("binlake> ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.rstrip(";").strip().lower() in _LEAVING:
            return
        try:
            run(text)
        except BinlogError as error:
            note(f"binlake: {error}")
        except KeyboardInterrupt:
            note("binlake: interrupted")


def _enter_runs_whole_statements() -> KeyBindings:
    bindings = KeyBindings()

    def enter(event: KeyPressEvent) -> None:
        text = event.current_buffer.text.strip()
        if not text or text.endswith(";") or text.lower() in _LEAVING:
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    bindings.add("enter")(enter)
    return bindings


def _history() -> History:
    """Return the history of earlier sessions, which only this user can read."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state, "binlake", "query_history")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


class NameCompleter(Completer):
    """Completes keywords, tables, and the columns of the tables that the text names."""

    def __init__(self, database: LogDatabase) -> None:
        self._database = database

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        typed = document.get_word_before_cursor(pattern=_WORD)
        if not typed:
            return
        start = typed.strip('"').casefold()
        for name, kind in self._names(document.text.casefold()):
            if name.casefold().startswith(start):
                text = name if kind == "" else _as_sql(name)
                yield Completion(text, -len(typed), display=name, display_meta=kind)

    def _names(self, text: str) -> Iterator[tuple[str, str]]:
        try:
            tables = self._database.table_names()
        except BinlogError:
            tables = []  # the statement reports it
        for table in tables:
            if table.casefold() in text:
                yield from ((column, table) for column in self._database.columns(table))
        yield from ((table, "table") for table in tables)
        yield from ((keyword, "") for keyword in _KEYWORDS)


def _as_sql(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'
