"""The effect of a range of the log on the rows of a table: for each row its values before and after the range.

    tracks = KeyedRows(shape, limit)            # or CountedRows, for a table without a key
    tracks.take(change)                         # in the order of the log
    tracks.forwards(batches)                    # rows before the range -> rows after it
    tracks.backwards(batches)                   # rows after the range -> rows before it

A row is followed through changes of its key, so swaps need no rules of their own. Memory is used for
the rows that the range changes. A change that does not fit the rows is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from binlake.errors import IncompleteError, UnsupportedError
from binlake.source.arrays import array
from binlake.state.shape import Key, Row, TableShape
from binlake.values.quantities import counted

_VALUE_BYTES = 60
_ROW_BYTES = 400
_BATCH_ROWS = 8192
_IMAGE_HINT = "the log needs binlog_row_image=FULL"


class LoggedChange(NamedTuple):
    """A row change of the log: both images with the columns that they have, and its place."""

    before: Row | None
    after: Row | None
    place: str


class Conflicts:
    """Handles rows that do not fit the log: an error, unless `counts` is set. Then the log has priority."""

    def __init__(self, table: str, base: str, *, counts: bool) -> None:
        self._table = table
        self._base = base
        self._counts = counts
        self.count = 0

    def add(self, message: str, place: str) -> None:
        """Take a sentence about a row. Raises IncompleteError."""
        self.count += 1
        if not self._counts:
            raise IncompleteError(
                f"{self._table}, {place}: {message}",
                hint=f"the log and {self._base} do not belong together, or rows changed without being"
                " logged; force=True continues with the rows of the log",
            )


@dataclass(slots=True)
class _Track:
    """One row. `first`: its known values before the range, None if it was not there; `last`: after the
    range. `lost` are columns whose value before the range the log does not contain.
    """

    first: Row | None
    last: Row | None
    lost: set[str]
    place: str
    is_met: bool = False


class _Memory:
    """Limits the memory for the rows of the log."""

    def __init__(self, table: str, most: int) -> None:
        self._table = table
        self._most = most
        self._taken = 0
        self.rows = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row. Raises UnsupportedError when there are too many."""
        values = row.values()
        self._taken += _ROW_BYTES + _VALUE_BYTES * len(values)
        self._taken += sum([len(v) for v in values if isinstance(v, str | bytes)])
        self.rows += 1
        if self._taken > self._most:
            raise UnsupportedError(
                f"{self._table}: {counted(self.rows, 'changed row')} need more memory than the limit"
                f" of {self._most >> 20} MB",
                hint="raise --max-memory, or start from a dump closer to the requested moment",
            )


class KeyedRows:
    """The rows of a table whose key identifies them."""

    def __init__(self, shape: TableShape, conflicts: Conflicts, most_bytes: int) -> None:
        self.shape = shape
        self._conflicts = conflicts
        self._memory = _Memory(shape.full_name, most_bytes)
        # every key that the range touches: the row that had it before the range
        self._starts: dict[Key, _Track | None] = {}
        self._now: dict[Key, _Track] = {}
        self._gone: list[_Track] = []

    def take(self, change: LoggedChange) -> None:
        """Take the next change. Raises IncompleteError, UnsupportedError."""
        before, after = change.before, change.after
        if before is None:
            assert after is not None
            self._memory.add(after)
            self._put(_Track(None, dict(after), set(), change.place), self._key(after, change))
            return
        track = self._taken(before, change)
        self._compare_log(before, track, change.place)
        if track.first is not None:
            for name, value in before.items():
                if name not in track.lost:
                    track.first.setdefault(name, value)
        if after is None:
            track.last = None
            self._gone.append(track)
            return
        assert track.last is not None
        if track.first is not None:
            track.lost |= after.keys() - track.first.keys()
        track.last.update(before)
        track.last.update(after)
        self._put(track, self._key({**before, **after}, change))

    def clear(self) -> None:
        """Remove every row, including those that the range does not touch (TRUNCATE)."""
        self._starts.clear()
        self._now.clear()
        self._gone.clear()

    def alter(self, shape: TableShape, altered: Callable[[Row], Row]) -> None:
        """The columns change: `altered` makes rows of the new columns."""
        self.shape = shape
        for track in {
            id(t): t for t in (*self._now.values(), *self._starts.values()) if t
        }.values():
            track.first = None if track.first is None else altered(track.first)
            track.last = None if track.last is None else altered(track.last)

    def now(self) -> Iterator[Row]:
        """Yield the known values of the rows that the log has shown, and that are there now."""
        return (track.last for track in self._now.values() if track.last is not None)

    def settled(self, columns: Sequence[str]) -> Iterator[Key]:
        """Yield the keys that the log has shown, without the keys of rows whose values now in `columns` it does not contain."""
        for key, track in self._starts.items():
            if track is None or track.last is None or track.last.keys() >= {*columns}:
                yield key

    def forwards(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows after the range; `batches` are those before it. Raises IncompleteError."""
        for keys, rows in _parted(self.shape, batches, self._starts):
            if isinstance(rows, pa.RecordBatch):
                yield rows
                continue
            changed = []
            for key, row in zip(keys, rows, strict=True):
                track = self._starts[key]
                if track is None:
                    self._add(
                        f"the row {self.shape.shown_key(key)} already exists before its insert", key
                    )
                    continue
                track.is_met = True
                self._compare(key, row, track.first, track.place)
                if track.last is not None:
                    changed.append({**row, **track.last})
            yield from self._batch(changed)
        for key, track in self._starts.items():
            if track is not None and not track.is_met:
                self._missing(key, track.place)
        born = [t for t in self._now.values() if not t.is_met]
        yield from self._whole((t.last or {}, t) for t in born)

    def backwards(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows before the range; `batches` are those after it. Raises IncompleteError,
        UnsupportedError where the log lacks the values before a change.
        """
        for keys, rows in _parted(self.shape, batches, self._starts):
            if isinstance(rows, pa.RecordBatch):
                yield rows
                continue
            changed = []
            for key, row in zip(keys, rows, strict=True):
                track = self._now.get(key)
                if track is None:
                    self._add(
                        f"the row {self.shape.shown_key(key)} still exists after its delete", key
                    )
                    continue
                track.is_met = True
                self._compare(key, row, track.last, track.place)
                if track.first is not None:
                    self._check_known(key, track)
                    changed.append({**row, **track.first})
            yield from self._batch(changed)
        for key, track in self._now.items():
            if not track.is_met:
                self._missing(key, track.place)
        dead = [t for t in self._gone if t.first is not None]
        yield from self._whole((t.first or {}, t) for t in dead)

    # -- parts ---------------------------------------------------------------------------------

    def _taken(self, before: Row, change: LoggedChange) -> _Track:
        """The row that has the key of a before-image; from now on no row has it."""
        key = self._key(before, change)
        track = self._now.pop(key, None)
        if track is not None:
            return track
        if key in self._starts:
            self._conflicts.add(
                f"the row {self.shape.shown_key(key)} changes, but does not exist", change.place
            )
        self._memory.add(before)
        track = _Track({}, {}, set(), change.place)
        self._starts.setdefault(key, track)
        return track

    def _put(self, track: _Track, key: Key) -> None:
        if key in self._now:
            self._conflicts.add(
                f"the row {self.shape.shown_key(key)} is written, but already exists", track.place
            )
        self._starts.setdefault(key, None)
        self._now[key] = track

    def _key(self, row: Row, change: LoggedChange) -> Key:
        try:
            return self.shape.key_of(row)
        except KeyError as error:
            raise UnsupportedError(
                f"{self.shape.full_name}, {change.place}: the row image lacks key column"
                f" {error.args[0]}",
                hint=_IMAGE_HINT,
            ) from None

    def _compare(self, key: Key, row: Row, known: Row | None, place: str) -> None:
        plain = self.shape.comparable
        for name, value in (known or {}).items():
            if plain(name, row[name]) != plain(name, value):
                self._conflicts.add(
                    f"the row {self.shape.shown_key(key)} has a value in column {name} that differs from the"
                    " log",
                    place,
                )
                return

    def _compare_log(self, before: Row, track: _Track, place: str) -> None:
        """A before-image must have the values that the log gave the row earlier."""
        plain, last = self.shape.comparable, track.last or {}
        for name, value in before.items():
            if name in last and plain(name, last[name]) != plain(name, value):
                self._conflicts.add(
                    f"column {name} of row {self.shape.shown_key(self.shape.key_of(before))} changed"
                    " without being logged",
                    place,
                )
                return

    def _check_known(self, key: Key, track: _Track) -> None:
        if track.lost:
            raise UnsupportedError(
                f"{self.shape.full_name}, {track.place}: the log does not contain the value before the"
                f" change of column {min(track.lost)} of row {self.shape.shown_key(key)}",
                hint=f"going back from a live table: {_IMAGE_HINT}; a dump made before the"
                " change needs no old values",
            )

    def _add(self, message: str, key: Key) -> None:
        track = self._now.get(key) or self._starts.get(key)
        self._conflicts.add(message, "the log" if track is None else track.place)

    def _missing(self, key: Key, place: str) -> None:
        self._conflicts.add(
            f"the row {self.shape.shown_key(key)} changes, but does not exist", place
        )

    def _whole(self, found: Iterable[tuple[Row, _Track]]) -> Iterator[pa.RecordBatch]:
        """Rows that come from the log alone, which must have all columns."""
        rows = []
        for row, track in found:
            lacking = [name for name in self.shape.names if name not in row or name in track.lost]
            if lacking:
                raise UnsupportedError(
                    f"{self.shape.full_name}, {track.place}: the log does not contain column"
                    f" {lacking[0]} of a row",
                    hint=_IMAGE_HINT,
                )
            rows.append(row)
            if len(rows) == _BATCH_ROWS:
                yield self.shape.batch(rows)
                rows = []
        yield from self._batch(rows)

    def _batch(self, rows: list[Row]) -> Iterator[pa.RecordBatch]:
        if rows:
            yield self.shape.batch(rows)


class CountedRows:
    """The rows of a table without a key: how many more or fewer of each the range leaves."""

    def __init__(self, shape: TableShape, conflicts: Conflicts, most_bytes: int) -> None:
        self.shape = shape
        self._conflicts = conflicts
        self._memory = _Memory(shape.full_name, most_bytes)
        self._more: dict[Key, tuple[int, Row, str]] = {}

    def take(self, change: LoggedChange) -> None:
        """Take the next change. Raises UnsupportedError for an image that lacks columns."""
        for row, step in ((change.before, -1), (change.after, 1)):
            if row is None:
                continue
            if step > 0 and change.before is not None:
                row = {**change.before, **row}
            lacking = [name for name in self.shape.names if name not in row]
            if lacking:
                raise UnsupportedError(
                    f"{self.shape.full_name}, {change.place}: the row image lacks column {lacking[0]},"
                    " and the table has no key that identifies rows",
                    hint=_IMAGE_HINT,
                )
            identity = self.shape.identity(row)
            known = self._more.get(identity)
            if known is None:
                self._memory.add(row)
                self._more[identity] = (step, row, change.place)
            elif known[0] + step:
                self._more[identity] = (known[0] + step, row, change.place)
            else:
                del self._more[identity]

    def clear(self) -> None:
        """Every row is gone."""
        self._more.clear()

    def alter(self, shape: TableShape, altered: Callable[[Row], Row]) -> None:
        """The columns change: `altered` makes rows of the new columns."""
        known = list(self._more.values())
        self.shape = shape
        self._more = {}
        for count, row, place in known:
            new = altered(row)
            identity = shape.identity(new)
            self._more[identity] = (count + self._more.get(identity, (0,))[0], new, place)

    def now(self) -> Iterator[Row]:
        """Yield the rows that the log has added."""
        return (row for count, row, _ in self._more.values() if count > 0)

    def settled(self, _columns: Sequence[str]) -> Iterator[Key]:
        """Yield nothing: no key identifies a row."""
        return iter(())

    def forwards(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows after the range; `batches` are those before it. Raises IncompleteError."""
        yield from self._with(batches, 1)

    def backwards(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows before the range; `batches` are those after it. Raises IncompleteError."""
        yield from self._with(batches, -1)

    def _with(self, batches: Iterable[pa.RecordBatch], sign: int) -> Iterator[pa.RecordBatch]:
        left = {key: -count * sign for key, (count, _, _) in self._more.items() if count * sign < 0}
        for batch in batches:
            if not left:
                yield batch
                continue
            kept = []
            for row in batch.to_pylist():
                identity = self.shape.identity(row)
                kept.append(not left.get(identity))
                if not kept[-1]:
                    left[identity] -= 1
            yield batch.filter(array(kept, pa.bool_()))
        for key, count in left.items():
            if count:
                row = {n: v for n, v in zip(self.shape.names, key, strict=True) if v is not None}
                shown = ", ".join(f"{n} = {v!r}" for n, v in list(row.items())[:4])
                self._conflicts.add(
                    f"the row {shown} changes, but does not exist", self._more[key][2]
                )
        rows = [row for count, row, _ in self._more.values() for _ in range(count * sign)]
        for start in range(0, len(rows), _BATCH_ROWS):
            yield self.shape.batch(rows[start : start + _BATCH_ROWS])


def _parted(
    shape: TableShape, batches: Iterable[pa.RecordBatch], touched: Mapping[Key, object]
) -> Iterator[tuple[Sequence[Key], pa.RecordBatch | list[Row]]]:
    """Yield of each batch the rows whose keys are not touched, as a batch, and the others with their
    keys.
    """
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in shape.key]
        plain = [
            [shape.comparable(name, value) for value in column]
            for name, column in zip(shape.key, columns, strict=True)
        ]
        keys = list(zip(*plain, strict=True))
        hits = [key in touched for key in keys]
        if not any(hits):
            yield (), batch
            continue
        mask = array(hits, pa.bool_())
        rest = batch.filter(array([not hit for hit in hits], pa.bool_()))
        if rest.num_rows:
            yield (), rest
        found = [key for key, hit in zip(keys, hits, strict=True) if hit]
        yield found, batch.filter(mask).to_pylist()
