"""A lake table that equals a table of a server, and its commits.

    table = lake.open_table("shop", "orders", ("id",), indexes)
    table.commit(Change(upserts=rows, deletes=keys), {"binlake.offset": …})

A commit writes the new rows into data files and marks the old ones where they are, by deletion
vectors (or, in tables of format v2, position deletes). Rows, the position in the source and, where
it changed, the schema are one atomic commit of Iceberg: nothing has to be reconciled after a kill.
"""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from binlake.errors import SchemaError
from binlake.mirror.iceberg.compaction import RewriteOrder, Rewritten
from binlake.mirror.iceberg.jvm import IcebergTable
from binlake.mirror.iceberg.live_rows import (
    Lookup,
    marked_rows,
    places_of_each,
    rows_at,
)
from binlake.mirror.iceberg.missing_keys import KeyReader, MissingKeys
from binlake.mirror.iceberg.parts import parts_of, write_parts
from binlake.mirror.iceberg.position_deletes import position_delete_files
from binlake.mirror.iceberg.puffin import vector_files
from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.iceberg.table_files import Entries, TableFiles
from binlake.mirror.stopped import StoppedError
from binlake.mirror.tables.change import Change
from binlake.mirror.tables.compaction_policy import FileState
from binlake.mirror.tables.data_files import FILE_PREFIX, DataFileWriter
from binlake.mirror.tables.formats import ICEBERG
from binlake.mirror.tables.keys import Keys, SortedKeys, by_file, keys_of_rows, row_hashes
from binlake.mirror.tables.live_batches import live_batches
from binlake.mirror.tables.partitions import Partitioning
from binlake.mirror.tables.row_sizes import FileSize, RowSizes
from binlake.mirror.tables.schema import FIELD_ID, conformed, storage_schema
from binlake.mirror.tables.versions import Version, ancestors

_POSITION = np.uint64(0xFFFFFFFF)


class MirrorTable:
    """An Iceberg table, its deleted positions, and the index of its keys: a `formats.LakeTable`. For one thread.

    `key` names the key columns, () for none: then whole rows are told apart. Of None, rows are only appended, and
    there is no index. `files` are those of the current snapshot. With `open_column`, several rows may have one key: the row of a key is the one in which
    the column is null. `key_reader` completes an index that lacks rows. All methods raise SourceError, CommitConflictError, SchemaError.
    """

    set_back = ""  # a table that is set back has its older snapshot again, with its position

    def __init__(
        self,
        table: IcebergTable,
        key: Sequence[str] | None,
        index_directory: Path,
        open_column: str | None = None,
        key_reader: KeyReader | None = None,
    ) -> None:
        self.stored = table
        self.full_name = table.full_name
        self._key_reader = key_reader or KeyReader()
        self.format = ICEBERG
        self.key = () if key is None else tuple(key)
        self._lookup = None if key is None else Lookup(self.key, open_column)
        self._index = RowIndex(index_directory)
        self._row_sizes = RowSizes()
        self.reload()

    # -- contents --------------------------------------------------------------------------------

    @property
    def partition_columns(self) -> frozenset[str]:
        ids = {str(number).encode() for number, _, _ in self.partitioning.fields}
        return frozenset(one.name for one in self.schema if one.metadata[FIELD_ID] in ids)

    @property
    def has_initial_defaults(self) -> bool:
        """Whether a new column can have a value in the rows of older files: since format v3."""
        return not self._has_delete_lists

    @property
    def _has_delete_lists(self) -> bool:
        """Whether deleted rows are marked by position deletes. A table that a user has upgraded to format v3 gets vectors."""
        return self.properties.get("binlake.deletes") == "position" and self._format_version < 3

    @property
    def rows(self) -> int:
        return sum(self.files.rows.values()) - self.deleted

    @property
    def deleted(self) -> int:
        """How many rows of the data files are deleted."""
        return sum(map(len, self.files.deleted.values()))

    def lineage(self) -> Iterator[Version]:
        yield Version(self.snapshot, self.summary)
        yield from ancestors(self.snapshot, self.stored.history())

    def has_other_commits(self) -> bool:
        self.stored.refresh()
        found = self.stored.describe()
        if found.get("snapshot") == self.snapshot:
            return False
        # the answer to a commit may have been lost
        is_own = any(name.startswith("binlake.") for name in found.get("summary", {}))
        return not (is_own and found.get("parent") == self.snapshot)

    def reload(self) -> None:
        """Reload the table, and complete the index. After an error of a file, the table is as before: the next commit is refused."""
        self.stored.refresh()
        # before the snapshot: with the files of an earlier one, deletes would go to data files that are gone
        files = TableFiles(self.stored.files())
        self._look()
        self.files = files
        if self._lookup is not None:
            self._complete_index(self._lookup)

    def _complete_index(self, lookup: Lookup) -> None:
        """Add all rows of the data files that the index lacks: deleted rows do no harm in it."""
        self._index.keep(self.files.rows)
        missing = {p: rows for p, rows in self.files.rows.items() if not self._index.has(p)}
        if missing:
            of = MissingKeys(self.full_name, missing, lookup, self.schema)
            self._key_reader.add(self._index, of)
        self._index.save(self.snapshot)

    def _look(self) -> None:
        found = self.stored.describe()
        schema = storage_schema(found["schema"])
        partitioning = Partitioning.of(found["spec"], schema)
        missing = [name for name in self.key if name not in schema.names]
        if missing:
            raise SchemaError(f"{self.full_name} has no column {missing[0]}, which its key needs")
        self.schema, self.partitioning = schema, partitioning
        self.properties: Mapping[str, str] = found["properties"]
        self._format_version: int = found["format_version"]
        self.summary: Mapping[str, str] = found.get("summary", {})
        self.snapshot: int | None = found.get("snapshot")

    def _look_at(self, made: int) -> None:
        """Look at the table after a commit of one's own. A later snapshot of another writer is not known here."""
        self._look()
        self.snapshot = made

    def _keys(self, rows: pa.Table) -> Keys:
        return keys_of_rows(rows, self.schema, self.key)

    # -- reading ---------------------------------------------------------------------------------

    def scan(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """All live rows. Changes that are committed meanwhile may be left out."""
        for path in list(self.files.rows):
            deleted = self.files.deleted.get(path, BitMap())
            for rows, _ in live_batches(path, deleted, self.schema, names or self.schema.names):
                if rows.num_rows:
                    yield rows

    def row_bytes(self) -> int:
        files, entries = self.files.rows, self.files.entries
        return self._row_sizes.average(
            FileSize(path, rows, entries[path]["file-size-in-bytes"])
            for path, rows in files.items()
        )

    def rows_of(
        self, keys: pa.Table, names: Sequence[str] | None = None
    ) -> tuple[np.ndarray[Any, Any], pa.Table]:
        names = self.schema.names if names is None else names
        wanted, places = self._live(self._keys(self._typed(keys)))
        found = np.full(keys.num_rows, -1, np.int64)
        parts: list[pa.Table] = []
        count = 0
        order = np.argsort(places, kind="stable")
        wanted, places = wanted[order], places[order]
        for number, of in by_file(places):
            positions = (places[of] & _POSITION).astype(np.int64)
            path = self._index.path(number)
            parts.append(rows_at(path, positions.tolist(), self.schema, names))
            found[wanted[of]] = np.arange(count, count + len(positions))
            count += len(positions)
        if parts:
            return found, pa.concat_tables(parts)
        return found, pa.schema([self.schema.field(name) for name in names]).empty_table()

    def _typed(self, keys: pa.Table) -> pa.Table:
        """The columns in the types of the table."""
        schema = pa.schema([self.schema.field(name) for name in keys.column_names])
        return conformed(keys, schema)

    def _live(self, keys: Keys) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(row in `keys`, place) of the rows that the table contains now."""
        rows, places = self._index.find(keys)
        keep = np.zeros(len(rows), bool)
        for number, of in by_file(places):
            path = self._index.path(number)
            if path not in self.files.rows:
                continue
            gone = self.files.deleted.get(path)
            if not gone:
                keep[of] = True
                continue
            positions = (places[of] & _POSITION).astype(np.uint32)
            hit = gone & BitMap(array("I", positions.tobytes()))
            keep[of] = ~np.isin(positions, np.array(hit.to_array(), np.uint32))
        return rows[keep], places[keep]

    # -- writing ---------------------------------------------------------------------------------

    def data_prefix(self) -> str:
        return self.stored.data_path(FILE_PREFIX)

    def replace(
        self,
        files: Sequence[Mapping[str, Any]],
        properties: Mapping[str, str],
        table_properties: Mapping[str, str],
        only: tuple[str, str] | None = None,
    ) -> None:
        request: dict[str, Any] = {
            "add": list(files),
            "properties": dict(properties),
            "table-properties": dict(table_properties),
        }
        marks: dict[str, BitMap] = {}
        if only is not None:
            marks = marked_rows(self.files.deleted, self.files.rows, self.schema, *only)
            request |= self._delete_files(marks, {})
        elif self.snapshot is not None:
            request["truncate"] = True
        self._commit(request, marks)
        # The rows are there, and the next start completes the row index.
        with suppress(StoppedError):
            self._index_made()

    def commit(self, change: Change, properties: Mapping[str, str]) -> int:
        if change.schema or change.truncate or change.table_properties:
            self._commit_structure(change, properties)
            return 0
        if change.appended is not None:
            return self._append(change.appended, properties)
        if self._index.snapshot != self.snapshot:  # it was not completed after the last commit
            self._index_made()
        new, touched = self._new_rows(change)
        marks = self._marked(touched, change.deletes)
        request: dict[str, Any] = {"add": [file for file, _ in new], "properties": {**properties}}
        request.update(self._delete_files(marks, {}))
        self._commit(request, marks)
        self._index.add_together(
            {file["file-path"]: keys for file, keys in new if keys is not None}
        )
        self._index.save(self.snapshot)
        return change.rows

    def _new_rows(
        self, change: Change
    ) -> tuple[list[tuple[Mapping[str, Any], SortedKeys | None]], list[Keys]]:
        """(the data files with the new rows, written here if they are not yet, and the keys of each; the keys
        whose rows a change replaces or deletes).
        """
        if change.written:
            gone = [] if change.delete_keys is None else [change.delete_keys]
            touched = [*(one.keys.keys for one in change.written), *gone]
            return [(one.file, one.keys) for one in change.written], touched
        rows = None if change.upserts is None else conformed(change.upserts, self.schema)
        keys = self._known(rows, change.upsert_keys)
        deleted = self._known(change.deletes, change.delete_keys)
        parts = parts_of(self.partitioning, rows, keys)
        files = write_parts(parts, DataFileWriter(self.schema, self.data_prefix()))
        found = [
            None if self._lookup is None else self._lookup.keys_of(one.rows, self.schema, one.keys)
            for one in parts
        ]
        return list(zip(files, found, strict=True)), [k for k in (keys, deleted) if k is not None]

    def _append(self, rows: Iterable[pa.Table], properties: Mapping[str, str]) -> int:
        if self._lookup is not None:
            raise ValueError("rows of a table with an index replace others")
        conforming = (conformed(part, self.schema) for part in rows)
        writer = DataFileWriter(self.schema, self.data_prefix(), partitioning=self.partitioning)
        added = list(writer.write(conforming))
        if added:
            self._commit({"add": added, "properties": dict(properties)}, {})
        return sum(file["record-count"] for file in added)

    def _commit_structure(self, change: Change, properties: Mapping[str, str]) -> None:
        if change.upserts is not None or change.deletes is not None:
            raise ValueError("rows are committed after a change of the structure, not with it")
        request: dict[str, Any] = {
            "schema": [list(group) for group in change.schema],
            "table-properties": dict(change.table_properties),
            "properties": dict(properties),
        }
        if change.truncate:
            request["truncate"] = True
        self._commit(request, {})
        self._index_made()

    def _index_made(self) -> None:
        """Complete the index after a commit. `reload` would accept a snapshot that another program has made since."""
        if self._lookup is not None:
            self._complete_index(self._lookup)

    def _commit(self, request: dict[str, Any], marks: Mapping[str, BitMap]) -> None:
        request["from"] = -1 if self.snapshot is None else self.snapshot
        made = self.stored.commit(request)
        if "truncate" in request:
            self.files = TableFiles.none()
        self.files.add(request, marks)
        self._look_at(made)

    # -- compaction ------------------------------------------------------------------------------

    def rewrite_of(self, group: Sequence[FileState]) -> RewriteOrder:
        """The inputs for another thread to write the rows of data files into one."""
        old = {file.path: self.files.deleted.get(file.path, BitMap()) for file in group}
        rows = {path: self.files.rows[path] for path in old}
        partition = group[0].partition
        return RewriteOrder(old, rows, self.schema, self._lookup, self.data_prefix(), partition)

    def commit_rewrites(self, rewrites: Sequence[Rewritten], properties: Mapping[str, str]) -> int:
        """Replace old data files with new ones, and apply the deletes of the meantime.

        Rewrites of files that are not all there any more are left out. Files of position deletes become
        one. Returns how many data files are gone; nothing is committed where there is nothing to do.
        """
        sound = [one for one in rewrites if all(path in self.files.rows for path in one.deleted)]
        moved = {one.path: one.moved(self.files.deleted) for one in sound if one.file is not None}
        marks = {path: positions for path, positions in moved.items() if len(positions)}
        new = {one.path: one.file for one in sound if one.file is not None}
        old = [path for one in sound for path in one.deleted]
        if not old and self.files.most_delete_lists() < 2:
            return 0
        request: dict[str, Any] = {
            "from": self.snapshot,
            "removed": [self.files.entries[path] for path in old],
            "add": list(new.values()),
            "properties": dict(properties),
            **self._rewritten_deletes(marks, set(old), new),
        }
        made = self.stored.rewrite(request)
        self.files.remove(old, request["replaced"])
        self.files.add(request, marks)
        self._look_at(made)
        if self._lookup is not None:
            self._index.add_together({one.path: one.keys for one in sound if one.keys is not None})
            self._index.forget(old)
            self._index.save(self.snapshot)
        return len(old)

    def _rewritten_deletes(
        self, marks: Mapping[str, BitMap], old: set[str], new: Entries
    ) -> dict[str, Any]:
        """Return the deletes of a rewrite: the new ones, and the ones that they replace."""
        if not self._has_delete_lists:
            replaced = [self.files.vectors[path] for path in old if path in self.files.vectors]
            lists = self.files.delete_lists.values()  # of a table that has been upgraded
            of_lists = {
                path: positions
                for path, positions in self.files.deleted.items()
                if lists and len(positions) and path not in self.files.vectors and path not in old
            }
            made = self._delete_files({**of_lists, **marks}, new)
            return {**made, "replaced": [*replaced, *lists]}
        # a list may also concern files that stay: their positions go into the new list
        all_marks = {
            path: positions
            for path, positions in (*self.files.deleted.items(), *marks.items())
            if path not in old and len(positions)
        }
        found: dict[str, Any] = {"replaced": list(self.files.delete_lists.values())}
        if all_marks:
            partitions = self.files.partitions(all_marks, new)
            found["deletes"] = position_delete_files(self.stored.data_path, all_marks, partitions)
        return found

    def _known(self, rows: pa.Table | None, keys: Keys | None) -> Keys | None:
        """The keys of rows of a change; None if there are no rows, or no key."""
        if not self.key or rows is None or not rows.num_rows:
            return keys if rows is None else None
        return self._keys(self._typed(rows.select(list(self.key)))) if keys is None else keys

    def _marked(self, touched: Sequence[Keys], deletes: pa.Table | None) -> dict[str, BitMap]:
        """All deleted positions, old and new, of the data files in which a change deletes rows.

        `touched`: the keys whose rows go. Without a key, rows go that equal `deletes`.
        """
        if self.key:
            parts = [self._live(keys)[1] for keys in touched]
            places = np.concatenate(parts) if parts else np.empty(0, np.uint64)
        else:
            places = self._one_each(deletes)
        marks: dict[str, BitMap] = {}
        for number, of in by_file(places):
            path = self._index.path(number)
            positions = (places[of] & _POSITION).astype(np.uint32)
            marks[path] = self.files.deleted.get(path, BitMap()) | BitMap(
                array("I", positions.tobytes())
            )
        return marks

    def _one_each(self, deletes: pa.Table | None) -> np.ndarray[Any, Any]:
        """For each row to delete the place of one that equals it. Raises IncompleteError."""
        if deletes is None or deletes.num_rows == 0:
            return np.empty(0, np.uint64)
        keys = row_hashes(self._typed(deletes.select(self.schema.names)))
        _, first, counts = np.unique(keys.ids(), return_index=True, return_counts=True)
        wanted, places = self._live(keys.take(first))
        return places_of_each(self.full_name, wanted, places, counts)

    def _delete_files(self, marks: Mapping[str, BitMap], new: Entries) -> dict[str, Any]:
        """Write the deletes of a commit; return their part of its request. `new`: data files that are not known yet."""
        if not marks:
            return {}
        partitions = self.files.partitions(marks, new)
        if self._has_delete_lists:
            since = {
                file: of - self.files.deleted.get(file, BitMap()) for file, of in marks.items()
            }
            made = position_delete_files(self.stored.data_path, since, partitions)
            return {"deletes": made}
        made = vector_files(self._new_vector_path, marks, partitions)
        replaced = [self.files.vectors[file] for file in marks if file in self.files.vectors]
        return {"deletes": made, "replaced": replaced}

    def _new_vector_path(self) -> str:
        return self.stored.data_path(f"{FILE_PREFIX}deletes-{uuid.uuid4().hex}.puffin")
