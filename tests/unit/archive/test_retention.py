"""Complete logs that are removed, by age or size."""

from __future__ import annotations

import binlake
from binlake.archive.finishing import Finish, finish_log
from binlake.archive.folder import Folder
from binlake.archive.retention import Retention, expired, purge

DAY = 86_400


def test_retention_by_bytes(folder: Folder) -> None:
    sizes = {n: s for n, s in folder.sizes().items() if n[-6:].isdigit()}
    total = sum(sizes.values())
    growing = "binlog.000005"
    assert expired(folder, Retention(bytes=total), growing) == []
    assert expired(folder, Retention(bytes=total - 1), growing) == ["binlog.000001"]
    everything = [f"binlog.00000{n}" for n in (1, 2, 3, 4)]
    assert expired(folder, Retention(bytes=1), growing) == everything
    assert expired(folder, Retention(bytes=1), "binlog.000003") == everything[:2]
    assert expired(folder, Retention(), growing) == []


def test_retention_by_time(folder: Folder) -> None:
    times = [e.frame.timestamp for e in binlake.open(folder.path).events() if e.pos == 4]
    ended = times[2]  # the second log ended when the third began
    rule = Retention(days=1)
    before = [f"binlog.00000{n}" for n in (1, 2)]
    assert expired(folder, rule, "binlog.000005", now=ended + DAY + 1)[:2] == before
    assert expired(folder, rule, "binlog.000005", now=times[1] + DAY) == []


def test_purged_logs_leave_nothing_behind(folder: Folder) -> None:
    for name in ("binlog.000001", "binlog.000002"):
        finish_log(folder, name, Finish("zstd"))
    purge(folder, ["binlog.000001", "binlog.000002"])
    assert not [name for name in folder.sizes() if "000001" in name or "000002" in name]
    assert (folder.read("binlog.index") or b"").split() == [
        f"./binlog.00000{n}".encode() for n in (3, 4, 5)
    ]
