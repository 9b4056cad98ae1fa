"""LOAD DATA as text: the blocks of a file joined on disk, and the statement that reads it."""

from __future__ import annotations

from pathlib import Path

from binlake.events.common.execute_load_query import ExecuteLoadQueryEvent
from binlake.events.common.load_blocks import FileBlockEvent, LoadedFileEvent
from binlake.events.old.load_data import CreateFileEvent, LoadEvent
from binlake.format.event_types import BEGIN_LOAD_QUERY_EVENT, DELETE_FILE_EVENT
from binlake.replay.event_printer import EventPrinter
from binlake.replay.old_load import old_load_statement
from binlake.replay.shown import Shown
from binlake.replay.statement_events import load_statement


class LoadPrinter(EventPrinter):
    """Prints the events of LOAD DATA, including the events of MySQL 3.23 to 4.1."""

    def _block(self, shown: Shown, event: FileBlockEvent) -> None:
        begins = event.frame.type_code == BEGIN_LOAD_QUERY_EVENT
        word = "Begin_load_query" if begins else "Append_block"
        words = f"\n#{word}: file_id: {event.file_id}  block_len: {event.block_bytes}\n"
        self.write(self.header(shown, words.encode()))
        if begins:
            self.load_files.begin(event.file_id, event.block)
        elif not self.load_files.append(event.file_id, event.block):
            self._file_without_beginning(event.file_id)

    def _file_without_beginning(self, file_id: int) -> None:
        self.warn(f"the beginning of the file {file_id} of LOAD DATA is not in the events shown")

    def _loaded_file(self, shown: Shown, event: LoadedFileEvent) -> None:
        deleted = event.frame.type_code == DELETE_FILE_EVENT
        word = "Delete_file" if deleted else "Exec_load"
        self.write(self.header(shown, f"\n#{word}: file_id={event.file_id}\n".encode()))
        load = self.old_loads.pop(event.file_id, None)
        if deleted:
            self.load_files.drop(event.file_id)
            return
        file = self.load_files.take(event.file_id)
        if load is None or file is None:
            self._file_without_beginning(event.file_id)
        else:
            self._print_old_load(shown, load, file)

    def _old_load(self, shown: Shown, event: LoadEvent) -> None:
        """LOAD DATA of a file of the server's, which is not in the log."""
        self.write(self.header(shown, f"\tLoad\tthread_id={event.thread_id}\n".encode()))
        self._print_old_load(shown, event, None)

    def _create_file(self, shown: Shown, event: CreateFileEvent) -> None:
        words = f"\n#Create_file: file_id: {event.file_id}  block_len: {event.block_bytes}\n"
        self.write(self.header(shown, words.encode()))
        self.load_files.begin(event.file_id, event.block)
        self.old_loads[event.file_id] = event

    def _print_old_load(self, shown: Shown, event: LoadEvent, file: Path | None) -> None:
        database = self.options.renamed(event.database)
        if not self._shows(event.database):
            self._pass_over(event.database)
            return
        self._flush_variables()
        if file is None:
            self.warn(f"LOAD DATA reads {event.file} on the server, which is not in the log")
        for line in self.session.prepare_load(event, database):
            self.write(line)
        self._print_sql(old_load_statement(event, file), shown.format.flavour)

    def _execute_load(self, shown: Shown, event: ExecuteLoadQueryEvent) -> None:
        database = self.options.renamed(event.database)
        file = self.load_files.take(event.file_id)
        if not self._shows(event.database):
            self._pass_over(event.database)
            return
        # the statement's INSERT_ID must be set here, too
        self._flush_variables()
        if file is None:
            self._file_without_beginning(event.file_id)
            return
        self._print_query(shown, event, b"\tExecute_load_query", database)
        self._print_sql(load_statement(event, file), shown.format.flavour)
        if not self.options.short_form:
            self.write(f"# file_id: {event.file_id} \n".encode())
