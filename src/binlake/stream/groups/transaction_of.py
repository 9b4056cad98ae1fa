"""Make a transaction of the group with its rows and the group that ends it."""

from __future__ import annotations

from collections.abc import Sequence

from binlake.events.common.xa_prepare import xid_text
from binlake.stream.groups.fragments import join_fragments
from binlake.stream.groups.group import Group
from binlake.stream.runs import Outcome, Transaction


def transaction_of(
    rows: Group, outcome: Outcome, decider: Group, undone: Sequence[tuple[int, int]] = ()
) -> Transaction:
    """The transaction whose changes `rows` holds and that `decider` ends (often the same group).

    `undone` are the ranges of its frames to leave out.
    """
    threads = (rows.thread_id, decider.thread_id)
    return Transaction(
        outcome=outcome,
        start=rows.start,
        end=rows.end,
        decided=decider.start,
        commit_us=decider.commit_us,
        server_id=rows.server_id,
        thread_id=next((thread for thread in threads if thread is not None), None),
        file=rows.file,
        statements=rows.noted_statements(),
        bytes=rows.file_bytes,
        gtid_event=decider.gtid_event,
        xid=rows.xid_event.xid if rows.xid_event is not None else None,
        xa_xid=_xid_text(rows),
        duration_us=_duration_us(rows, decider),
        is_remarked=bool(rows.warnings or decider.warnings),
        needs_file=rows.file.is_relay or not rows.frames.is_held,
        held_bytes=rows.frames.size,
        _pieces=lambda: join_fragments(rows.frames.pieces(undone)),
    )


def _duration_us(rows: Group, decider: Group) -> int:
    """Return the time from the first statement to the commit, both in whole seconds.

    Headers have no fractions. A fraction at one end only would make the result wrong by up to a
    second, always in the same direction.
    """
    committed = decider.commit_us - decider.commit_us % 1_000_000
    return max(0, max(committed, decider.last_us) - rows.begun_us)


def _xid_text(group: Group) -> str | None:
    """Return the name of the XA transaction that a group prepares or decides."""
    xid = group.xid or (group.decides[0] if group.decides is not None else None)
    if xid is None:
        return None
    format_id, gtrid, bqual = xid
    return xid_text(gtrid, bqual, format_id)
