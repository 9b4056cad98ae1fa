"""The content of Spark's checkpoint of a stream: a position, as JSON.

    {"version": 1, "server_uuid": "…", "file": "binlog.000012", "offset": 4711,
     "gtid_set": "3e11fa47-…:1-42", "log_created": 1795269600, "commit_time": "2026-11-21T14:00:00Z",
     "last_events": {"start": 4600, "digest": "0f3a…"}, "ledger": {"batches": 7, "rows": 1234, …}}

Spark stores it before a batch runs, and returns it unchanged after a restart, perhaps to another
version of the package. So it has a version, and binlake checks everything.

The end of a stream's first batch also contains the beginning of that batch (`begins_at`). Spark
asks for the first position again when it repeats an uncommitted first batch, and "latest" or
"earliest" have moved by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from binlake.errors import SourceError
from binlake.stream.positions.log_fingerprint import LogFingerprint
from binlake.values.position import Position
from binlake.values.times import since_epoch_us, utc_moment

_VERSION = 1
_HINT = "start again with a new checkpoint, and set starting_offsets to where it begins"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The position of a stream (`values.position.Position`), and the facts that identify the log it was read from.

    `log_created`: the time in the file's format description, seconds since 1970; None: unknown.
    `shown` are GTIDs that were shown although they lie after the position: another server, which
    took over, has them in another order. They have the form of the option `exclude_gtid`; earlier versions
    recorded some before the position, too.
    `commit_us`: the commit time of the last transaction before the position, microseconds since
    1970 UTC; None: unknown. `fingerprint`: the events before the position, None: unknown.
    `is_anonymous`: whether the last transaction before the position has no GTID, although earlier ones may have (MySQL with
    another `gtid_mode` than ON): the GTID set does not describe the place then. None: the log has none before the position. A server begins
    a log when `gtid_mode` changes. `initial`: nothing was read yet. `begins_at`: where the first batch begins, which ends here.
    `sums`: the counts of the batches before the one that ends here (`spark.ledgers.batch_sums`).
    """

    position: Position
    log_created: int | None = None
    shown: str = ""
    commit_us: int | None = None
    initial: bool = False
    is_anonymous: bool | None = None
    begins_at: StreamOffset | None = None
    fingerprint: LogFingerprint | None = None
    sums: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Position, str]:
        """The common part of two offsets at the same position."""
        return self.position, self.shown

    def to_json(self) -> dict[str, Any]:
        """Return the offset for JSON, without empty keys."""
        value: dict[str, Any] = {"version": _VERSION, **asdict(self.position)}
        if self.log_created is not None:
            value["log_created"] = self.log_created
        if self.shown:
            value["shown_gtids"] = self.shown
        if self.commit_us is not None:
            moment = utc_moment(self.commit_us)
            value["commit_time"] = moment.isoformat().replace("+00:00", "Z")
        # its end is not written: it is taken from the position
        if self.fingerprint is not None and self.fingerprint.end == self.position.offset:
            value["last_events"] = {
                "start": self.fingerprint.start,
                "digest": self.fingerprint.digest,
            }
        if self.sums:
            value["ledger"] = dict(self.sums)
        if self.initial:
            value["initial"] = True
        if self.is_anonymous is not None:
            value["anonymous"] = self.is_anonymous
        if self.begins_at is not None:
            value["begins_at"] = self.begins_at.to_json()
        return value

    @classmethod
    def from_json(cls, value: Any) -> StreamOffset:
        """Parse the result of `to_json`. Raises SourceError for anything else."""
        if not isinstance(value, Mapping) or "version" not in value:
            raise SourceError("the checkpoint contains no position of a binary log", hint=_HINT)
        if value["version"] != _VERSION:
            raise SourceError(
                f"the checkpoint's position has version {value['version']!r}; this binlake knows "
                f"{_VERSION}",
                hint="a newer binlake wrote it: use that version",
            )
        try:
            begins_at = value.get("begins_at")
            fingerprint = value.get("last_events")
            return cls(
                position=Position(
                    _of(str, value["server_uuid"]),
                    _of(str, value["file"]),
                    _of(int, value["offset"]),
                    _of(str, value["gtid_set"]),
                ),
                log_created=None if (n := value.get("log_created")) is None else _of(int, n),
                shown=_of(str, value.get("shown_gtids", "")),
                commit_us=_commit_us(value.get("commit_time")),
                initial=_of(bool, value.get("initial", False)),
                is_anonymous=None if (b := value.get("anonymous")) is None else _of(bool, b),
                begins_at=None if begins_at is None else cls.from_json(begins_at),
                fingerprint=None
                if fingerprint is None
                else _fingerprint(fingerprint, value["offset"]),
                sums={
                    _of(str, name): _of(int, count)
                    for name, count in value.get("ledger", {}).items()
                },
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SourceError(
                f"the checkpoint's position is damaged: {error}", hint=_HINT
            ) from None

    def after(self, start: StreamOffset) -> StreamOffset:
        """Return the offset as the end of a batch that begins at `start`."""
        first = start if start.initial else None
        return replace(self, initial=False, begins_at=first)


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def _fingerprint(value: Any, end: int) -> LogFingerprint:
    fingerprint = LogFingerprint(_of(int, value["start"]), end, _of(str, value["digest"]))
    if not 0 < fingerprint.start < end:
        raise ValueError(f"the events before {end} cannot start at {fingerprint.start}")
    return fingerprint


def _commit_us(text: str | None) -> int | None:
    if text is None:
        return None
    return since_epoch_us(datetime.fromisoformat(_of(str, text)))
