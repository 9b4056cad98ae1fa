"""Complete logs that are removed, by age or size."""

from __future__ import annotations

from pathlib import Path

import binlake
from binlake.archive.finishing import Finish, finish_log
from binlake.archive.folder import Folder
from binlake.archive.retention import Retention, expired, purge

DAY = 86_400
FUTURE = 4e9


def test_retention_by_bytes(folder: Folder) -> None:
    sizes = {n: s for n, s in folder.sizes().items() if n[-6:].isdigit()}
    total = sum(sizes.values())
    growing = "binlog.000005"
    assert expired(folder, Retention(bytes=total), growing).names == []
    assert expired(folder, Retention(bytes=total - 1), growing).names == ["binlog.000001"]
    everything = [f"binlog.00000{n}" for n in (1, 2, 3, 4)]
    assert expired(folder, Retention(bytes=1), growing).names == everything
    assert expired(folder, Retention(bytes=1), "binlog.000003").names == everything[:2]
    assert expired(folder, Retention(), growing).names == []


def test_retention_by_time(folder: Folder) -> None:
    times = [e.frame.timestamp for e in binlake.open(folder.path).events() if e.pos == 4]
    ended = times[2]  # the second log ended when the third began
    rule = Retention(days=1)
    before = [f"binlog.00000{n}" for n in (1, 2)]
    assert expired(folder, rule, "binlog.000005", now=ended + DAY + 1).names[:2] == before
    assert expired(folder, rule, "binlog.000005", now=times[1] + DAY).names == []


def test_an_unreadable_log_stops_retention_by_time_only(folder: Folder) -> None:
    """Its first event would show when the log before it ended."""
    path = Path(folder.path, "binlog.000003")
    path.write_bytes(b"damaged" + path.read_bytes()[7:])
    found = expired(folder, Retention(days=1), "binlog.000005", now=FUTURE)
    assert found.names == ["binlog.000001"]
    assert "binlog.000003" in str(found.unreadable)
    whole = expired(folder, Retention(days=1, bytes=1), "binlog.000005", now=FUTURE)
    assert (len(whole.names), whole.unreadable) == (4, None)
    # the archiver has begun it, and has written nothing yet
    begun = expired(folder, Retention(days=1), "binlog.000003", now=FUTURE)
    assert (begun.names, begun.unreadable) == (["binlog.000001"], None)


def test_a_log_that_was_compressed_meanwhile_is_no_problem(folder: Folder) -> None:
    class Before(type(folder)):  # type: ignore[misc]
        """Its first listing has the log before it was compressed."""

        listings = [folder.sizes()]

        def sizes(self) -> dict[str, int]:
            return self.listings.pop() if self.listings else super().sizes()

    finish_log(folder, "binlog.000003", Finish("zstd"))
    before = Before(folder.path)
    found = expired(before, Retention(days=1), "binlog.000005", now=FUTURE)
    assert (found.names, found.unreadable) == (["binlog.000001"], None)


def test_purged_logs_leave_nothing_behind(folder: Folder) -> None:
    for name in ("binlog.000001", "binlog.000002"):
        finish_log(folder, name, Finish("zstd"))
    purge(folder, ["binlog.000001", "binlog.000002"])
    assert not [name for name in folder.sizes() if "000001" in name or "000002" in name]
    assert (folder.read("binlog.index") or b"").split() == [
        f"./binlog.00000{n}".encode() for n in (3, 4, 5)
    ]
