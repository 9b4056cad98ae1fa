"""Whether the logs of a server are the ones that an archive continues.

After RESET BINARY LOGS AND GTIDS, or after a restore of an older state, a server has the same identity and begins its logs
again, and `binlake archive` continues in another directory. Positions in the old logs mean nothing in the new ones.
"""

from __future__ import annotations

from contextlib import closing

from binlake.errors import SourceError
from binlake.follow.logs import LogsNow, StreamLogs
from binlake.follow.server_logs import ServerLogs
from binlake.source.replica.url import without_password
from binlake.values.options import ReadOptions


def check_history(archive: StreamLogs, now: LogsNow, url: str) -> None:
    """Raise SourceError if the newest log of an archive, as of the look `now`, is not one that the server of `url` has, or had
    before it purged logs. Raises BinlogError.
    """
    # the newest file may be empty, if the archive has just begun it
    begun = (one for one in reversed(now.numbers) if archive.created(now, one) is not None)
    newest = next(begun, now.numbers[-1])
    name = now.files[newest].name
    with closing(ServerLogs(url, ReadOptions(), patience_s=0.0)) as server:
        there = server.look()
        number = there.number_of(name)
        if number is None:
            is_other = there.numbers[-1] < newest
        else:
            here = archive.created(now, newest)
            is_other = None not in (here, found := server.created(there, number)) and here != found
    if is_other:
        raise SourceError(
            f"{name} of the archive {now.inputs[0]} is not a log of {without_password(url)}: the server's logs were reset, or it "
            "has been restored",
            hint="`binlake archive` continues in another directory; read that one with --logs, and run "
            "`binlake mirror resync LAKE '*.*'`",
        )
