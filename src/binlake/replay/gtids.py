"""GTID events as the statements that give a replayed transaction its GTID, and the sets of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

from binlake.events.common.xa_prepare import xid_text
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.format import flags
from binlake.replay.event_text import END


def mysql_gtid_words(event: GtidEvent) -> bytes:
    """Return the text after the type in the header's line."""
    fields = {
        "last_committed": event.last_committed or 0,
        "sequence_number": event.sequence_number or 0,
        "rbr_only": "no" if event.flags & flags.FLAG_MAY_HAVE_SBR else "yes",
        "original_committed_timestamp": event.original_commit_us or 0,
        "immediate_commit_timestamp": event.immediate_commit_us or 0,
        "transaction_length": event.transaction_length or 0,
    }
    return "".join(f"\t{name}={value}" for name, value in fields.items()).encode() + b"\n"


def mysql_gtid_lines(event: GtidEvent) -> Iterator[bytes]:
    """The statements that name the next transaction."""
    if not event.flags & flags.FLAG_MAY_HAVE_SBR:
        yield b"/*!50718 SET TRANSACTION ISOLATION LEVEL READ COMMITTED*/" + END
    original, immediate = event.original_commit_us or 0, event.immediate_commit_us or 0
    yield f"# original_commit_timestamp={original} ({_micro_text(original)})\n".encode()
    yield f"# immediate_commit_timestamp={immediate} ({_micro_text(immediate)})\n".encode()
    yield f"/*!80001 SET @@session.original_commit_timestamp={original}*/".encode() + END
    for name in ("original", "immediate"):
        version = getattr(event, f"{name}_server_version") or 0
        yield f"/*!80014 SET @@session.{name}_server_version={version}*/".encode() + END
    yield f"SET @@SESSION.GTID_NEXT= '{event.gtid or 'ANONYMOUS'}'".encode() + END


def _micro_text(microseconds: int) -> str:
    seconds, rest = divmod(microseconds, 1_000_000)
    local = time.localtime(seconds)
    return time.strftime(f"%Y-%m-%d %H:%M:%S.{rest:06d} %Z", local)


def previous_gtids_text(event: PreviousGtidsEvent) -> bytes:
    """The set that was executed before the file, a source per line."""
    text = str(event.gtids).replace(",", ",\n# ")
    return f"# {text or '[empty]'}\n".encode()


def gtid_list_text(event: GtidListEvent) -> bytes:
    """MariaDB's list of last GTIDs."""
    ordered = sorted(event.gtids, key=lambda gtid: gtid.domain_id)
    return ("[" + ",\n# ".join(map(str, ordered)) + "]\n").encode()


class MariadbGtids:
    """MariaDB names a transaction by session variables, which are set when they change."""

    def __init__(self) -> None:
        self._allow_parallel: bool | None = None
        self._domain_id: int | None = None
        self._server_id: int | None = None

    @property
    def last_set(self) -> tuple[bool | None, int | None, int | None]:
        """Whether to replicate in parallel, the domain and the server that were set last."""
        return self._allow_parallel, self._domain_id, self._server_id

    @staticmethod
    def words(event: MariadbGtidEvent) -> bytes:
        """Return the text after the type in the header's line."""
        text = f"{event.domain_id}-{event.frame.server_id}-{event.seq_no}"
        extra = event.flags_extra or 0
        if event.commit_id is not None:
            text += f" cid={event.commit_id}"
        for bit, word in (
            (flags.FL_DDL, "ddl"),
            (flags.FL_TRANSACTIONAL, "trans"),
            (flags.FL_WAITED, "waited"),
        ):
            if event.flags & bit:
                text += f" {word}"
        if extra & flags.FL_START_ALTER:
            text += " START ALTER"
        if extra & flags.FL_COMMIT_ALTER:
            text += f" COMMIT ALTER id= {event.start_alter_seq_no}"
        if extra & flags.FL_ROLLBACK_ALTER:
            text += f" ROLLBACK ALTER id= {event.start_alter_seq_no}"
        if event.thread_id is not None:
            text += f" thread_id={event.thread_id}"
        return text.encode() + b"\n"

    def lines(self, event: MariadbGtidEvent) -> Iterator[bytes]:
        """The statements that name the next transaction."""
        parallel = bool(event.flags & flags.FL_ALLOW_PARALLEL)
        if parallel != self._allow_parallel:
            self._allow_parallel = parallel
            yield _maria(100101, f"skip_parallel_replication={not parallel:d}")
        if event.domain_id != self._domain_id:
            self._domain_id = event.domain_id
            yield _maria(100001, f"gtid_domain_id={event.domain_id}")
        if event.frame.server_id != self._server_id:
            self._server_id = event.frame.server_id
            yield _maria(100001, f"server_id={event.frame.server_id}")
        yield _maria(100001, f"gtid_seq_no={event.seq_no}")

    @staticmethod
    def begin(event: MariadbGtidEvent) -> bytes:
        """The statement that the event stands for, if it stands for one."""
        if event.flags & flags.FL_PREPARED_XA and event.gtrid is not None:
            xid = xid_text(event.gtrid, event.bqual or b"", event.format_id or 0)
            return f"XA START {xid}".encode() + END
        return b"" if event.flags & flags.FL_STANDALONE else b"START TRANSACTION\n" + END


def _maria(version: int, text: str) -> bytes:
    return f"/*M!{version} SET @@session.{text}*/".encode() + END
